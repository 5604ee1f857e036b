#include "lib/huggingface/Deepseek.h"

using namespace llmc;
using namespace llmc::hf;

Decoder hf::readDeepseek(Config &config, const CompileOptions &options, const DecoderDefaults &decoder,
                         const DeepseekDefaults &mixture) {
  Decoder d = readDecoder(config, options, decoder);
  d.latent = readLatentAttention(config, d.heads);
  d.headDim = d.latent->rope; // of which the rope turns all
  d.ropes = {readRope(config, ropeFields(d))};
  Mixture &m = d.mixture;
  m.experts = config.positive({"n_routed_experts", "num_local_experts", "num_experts"}, mixture.experts);
  m.choices = config.positive({"num_experts_per_tok"}, std::max<int64_t>(mixture.choices, 1));
  if (!mixture.choices && !config.has({"num_experts_per_tok"}))
    config.note("\"num_experts_per_tok\" is missing: expected the experts that a token takes");
  m.inner = config.positive({"moe_intermediate_size"}, mixture.inner);
  m.factor = config.positiveNumber({"routed_scaling_factor"}, mixture.factor);
  m.activation = d.activation;
  d.sharedInner = m.inner * config.positive({"n_shared_experts"}, mixture.shared);
  d.shared = "shared_experts";
  int64_t first = config.index({"first_k_dense_replace"}, mixture.firstSparse);
  if (int64_t every = config.positive({"moe_layer_freq"}, 1); every != 1)
    config.note("\"moe_layer_freq\" " + std::to_string(every) + " is not supported: 1 is");
  for (size_t i = 0; i < d.layers.size(); ++i)
    d.layers[i].sparse = int64_t(i) >= first;
  return d;
}
