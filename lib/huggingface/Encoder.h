// Describes encoders with a masked-language head and builds them: learned positions, attention
// without a mask, a layer norm after each residual add (Devlin et al., 2019).
// Tested by test/import/Architectures.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_ENCODER_H
#define LLMC_LIB_HUGGINGFACE_ENCODER_H

#include "lib/huggingface/Architecture.h"
#include "lib/huggingface/Layers.h"

namespace llmc::hf {

// Holds the names of modules in the checkpoint; those from `q` to `mlpNorm` of layer 7 get the
// prefix "LAYERS.7.".
struct EncoderNames {
  std::string words, positions, types; // types "": no token types
  std::string embeddingNorm, layers;
  std::string q, k, v, out, attentionNorm, up, down, mlpNorm;
  std::string headDense, headNorm, head, headBias; // the bias is a tensor by itself
};

// Describes an encoder, as the file of an architecture fills it in.
struct Encoder {
  int64_t vocabulary = 0, width = 0, inner = 0, layers = 0, heads = 0, types = 0;
  int64_t positions = 0, sequence = 0;
  // Holds the id of the padding token if positions skip it: the n-th other token of a row, from
  // n = 1, has position padding + n, and a padding token has position `padding`.
  std::optional<int64_t> padding;
  double deviation = 0.02;
  Norm norm;
  Activation activation = Activation::GeluErf, headActivation = Activation::GeluErf;
  bool tied = true;
  EncoderNames names;
};

// Reads the fields and sets the names that BERT and RoBERTa share; names in checkpoints begin
// with `prefix`. Leaves the sequence and the names of the head to the caller.
Encoder readBert(Config &config, const CompileOptions &options, int64_t vocabulary,
                 const std::string &prefix);

// Notes in `config` what is not supported: cross attention, a use as decoder, positions that
// are not learned, and a width that the heads do not divide.
void checkEncoder(Config &config, const Encoder &encoder);

// Builds the module. Returns a null one if `config` has problems.
BuiltModel buildEncoder(mlir::MLIRContext &context, Config &config, const CompileOptions &options,
                        Encoder encoder);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_ENCODER_H
