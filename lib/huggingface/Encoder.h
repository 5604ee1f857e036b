// An encoder with a masked-language head in one description: learned positions,
// every token sees all, a layer norm after each half of a layer (Devlin et al., 2019).
#ifndef LLMC_LIB_HUGGINGFACE_ENCODER_H
#define LLMC_LIB_HUGGINGFACE_ENCODER_H

#include "lib/huggingface/Architecture.h"
#include "lib/huggingface/Layers.h"

namespace llmc::hf {

// Names in the checkpoint; those from `q` to `mlpNorm` stand behind "LAYERS.7.".
struct EncoderNames {
  std::string words, positions, types; // types "": there are none
  std::string embeddingNorm, layers;
  std::string q, k, v, out, attentionNorm, up, down, mlpNorm;
  std::string headDense, headNorm, head, headBias; // the bias is a tensor by itself
};

struct Encoder {
  int64_t vocabulary = 0, width = 0, inner = 0, layers = 0, heads = 0, types = 0;
  int64_t positions = 0, sequence = 0;
  // The table of positions starts behind this token's id, and only other tokens count.
  std::optional<int64_t> padding;
  double deviation = 0.02;
  Norm norm;
  Activation activation = Activation::GeluErf, headActivation = Activation::GeluErf;
  bool tied = true;
  EncoderNames names;
};

// The fields and names of BERT, and of who kept its layers; checkpoints begin names with
// `prefix`. The sequence and the head's names are left to the caller.
Encoder readBert(Config &config, const CompileOptions &options, int64_t vocabulary,
                 const std::string &prefix);

// Notes what an encoder cannot be asked for: cross attention, another use of the
// class as a decoder, positions that are not learned, sizes that do not fit.
void checkEncoder(Config &config, const Encoder &encoder);

// Empty if something was noted.
BuiltModel buildEncoder(mlir::MLIRContext &context, Config &config, const CompileOptions &options,
                        const Encoder &encoder);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_ENCODER_H
