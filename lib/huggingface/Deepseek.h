// Reads the fields of DeepSeek's architectures. Tested by test/import/Experts.cpp.
#ifndef LLMC_LIB_HUGGINGFACE_DEEPSEEK_H
#define LLMC_LIB_HUGGINGFACE_DEEPSEEK_H

#include "lib/huggingface/Decoder.h"

namespace llmc::hf {

// Holds the defaults of the mixtures of DeepSeek's architectures.
struct DeepseekDefaults {
  int64_t experts, choices; // choices 0: the field must be there
  int64_t inner, shared, firstSparse;
  double factor;
};

// Reads the fields that DeepSeek-V2 and V3 share: latent attention, its rope, and a mixture in the layers
// from `first_k_dense_replace` on. Leaves the choice of experts to the caller.
Decoder readDeepseek(Config &config, const CompileOptions &options, const DecoderDefaults &decoder,
                     const DeepseekDefaults &mixture);

} // namespace llmc::hf

#endif // LLMC_LIB_HUGGINGFACE_DEEPSEEK_H
