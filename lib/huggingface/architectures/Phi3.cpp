// Builds Phi3ForCausalLM of transformers (Abdin et al., 2024): Llama with one matrix for query,
// key and value, one for gate and up, and a divisor for each frequency (longrope).
#include "lib/huggingface/Decoder.h"

using namespace llmc;
using namespace llmc::hf;

static BuiltModel build(mlir::MLIRContext &context, Config &config,
                        const CompileOptions &options) {
  Decoder d = readDecoder(config, options,
                          {.vocabulary = 32064, .width = 3072, .inner = 8192, .layers = 32,
                           .heads = 32, .context = 4096, .epsilon = 1e-5});
  d.fusedQkv = FusedQkv::OneAfterTheOther;
  d.fusedMlp = true;
  d.names.q = "qkv_proj";
  d.names.gate = "gate_up_proj";
  std::optional<int64_t> window = config.positiveOrNull({"sliding_window"}, std::nullopt);
  setWindows(d, window, std::vector<bool>(d.layers.size(), true));

  RopeFields rope = ropeFields(d);
  rope.original = 4096;
  rope.partNames = {"partial_rotary_factor"};
  rope.typeNames = {{"su", "longrope"}, {"yarn", "longrope"}};
  d.ropes = {readRope(config, rope)};
  return buildDecoder(context, config, options, d);
}

Architecture hf::architectures::Phi3() { return {{"phi3"}, {"Phi3ForCausalLM"}, build}; }
