// Describes multi-head latent attention and builds it (DeepSeek-AI, 2024, "DeepSeek-V2", section 2.1):
// keys and values of all heads come from one narrow vector a token, and positions from a key of its own
// that heads share. Tests: test/import/Experts.cpp (sizes), test/numerics/architectures.py (numbers).
#ifndef LLMC_LIB_HUGGINGFACE_LATENT_H
#define LLMC_LIB_HUGGINGFACE_LATENT_H

#include "lib/huggingface/Layers.h"

namespace llmc::hf {

// Describes the attention. Heads of queries and keys have `nope` elements without and `rope` with a
// position.
struct LatentAttention {
  int64_t heads = 0, nope = 0, rope = 0, value = 0;
  int64_t queryRank = 0; // size of the vector that queries come from; 0: they come from the token
  int64_t keyRank = 0;   // of the one that keys and values come from
  bool bias = false;     // of what makes these vectors, and of the output
  bool interleaved = true; // turns pairs of neighbours
  double scale = 1;        // factor of the scores
  Norm norm{Norm::Kind::Rms, 1e-6}; // of both vectors
};

// Reads the fields of an attention with as many heads. Notes in `config` what is wrong.
LatentAttention readLatentAttention(Config &config, int64_t heads);

// Builds the attention called `name` on x [batch, sequence, width], with the same shape as its result.
mlir::Value latentAttention(Layers &layers, const LatentAttention &attention, const std::string &name,
                            mlir::Value x, const Angles &angles);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_LATENT_H
