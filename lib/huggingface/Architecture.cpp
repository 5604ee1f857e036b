#include "lib/huggingface/Architecture.h"

using namespace llmc;
using namespace llmc::hf;

std::vector<Architecture> hf::allArchitectures() {
  return {
#define LLMC_ARCHITECTURE(NAME) architectures::NAME(),
#include "lib/huggingface/Architectures.inc"
#undef LLMC_ARCHITECTURE
  };
}

int64_t hf::chooseSequence(Config &config, const CompileOptions &options, int64_t context,
                           bool table) {
  constexpr int64_t longestDefault = 4096;
  if (options.sequence < 0)
    config.note("--seq " + std::to_string(options.sequence) + " must be positive");
  int64_t sequence = options.sequence > 0 ? options.sequence : std::min(context, longestDefault);
  if (table && sequence > context)
    config.note("the sequence of " + std::to_string(sequence) +
                " is longer than the position table of " + std::to_string(context) +
                " rows: use --seq " + std::to_string(context) + " or less");
  return std::max<int64_t>(sequence, 1);
}

int64_t hf::countLayers(Config &config, Config::Names names, int64_t fallback) {
  constexpr int64_t most = 1000;
  int64_t layers = config.positive(names, fallback);
  if (layers <= most)
    return layers;
  config.note(config.quoted(names.front()) + " " + std::to_string(layers) + " is more than " +
              std::to_string(most));
  return most;
}
