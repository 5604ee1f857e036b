#include "lib/search/Flags.h"

#include "lib/support/FlagSetters.h"

using namespace llmc;
using namespace llmc::search;
using support::text;

std::vector<std::pair<std::string, std::string>> search::flagsOf(const Candidate &candidate, const Request &request) {
  const Layout &layout = candidate.layout;
  std::string mesh;
  using planfile::AxisRole;
  auto axis = [&](AxisRole role, int64_t size) {
    if (size > 1)
      mesh += text(mesh.empty() ? "" : ",", planfile::nameOf(role), "=", size);
  };
  axis(AxisRole::Data, candidate.dp), axis(AxisRole::Stages, candidate.pp), axis(AxisRole::Tensor, layout.tp);
  axis(AxisRole::Context, layout.cp), axis(AxisRole::Expert, layout.ep);
  if (layout.ep > 1)
    axis(AxisRole::ExpertTensor, layout.etp);
  std::vector<std::pair<std::string, std::string>> flags{{"--mesh", mesh.empty() ? "1" : mesh},
                                                         {"--micro-batch", text(candidate.microBatch)},
                                                         {"--global-batch", text(candidate.microBatch * candidate.microBatches * candidate.dp)}};
  auto add = [&](const char *flag, std::string value) { flags.emplace_back(flag, std::move(value)); };
  if (candidate.pp > 1 || candidate.order == cost::Order::GPipe)
    add("--schedule", cost::nameOf(candidate.order));
  if (candidate.chunks > 1)
    add("--virtual-stages", text(candidate.chunks));
  if (!request.options.stages.empty() || request.free.stages) {
    std::string stages;
    for (int64_t count : candidate.stages)
      stages += text(stages.empty() ? "" : ",", count);
    if (!stages.empty() && !request.options.stages.empty())
      add("--stages", stages);
  }
  if (candidate.dp * layout.cp > 1)
    add("--zero", text(candidate.zero));
  if (layout.tp > 1)
    add("--sequence-parallel", layout.sequenceParallel ? "on" : "off");
  add("--recompute", cost::nameOf(candidate.recompute));
  if (layout.gradients != cost::Number::Fp32)
    add("--grad-dtype", cost::nameOf(layout.gradients));
  return flags;
}

std::string search::lineOf(const std::vector<std::pair<std::string, std::string>> &flags) {
  std::string line;
  for (const auto &[flag, value] : flags)
    line += text(line.empty() ? "" : " ", flag, " ", value);
  return line;
}

// Returns a word as a shell reads it.
static std::string quoted(const std::string &word) {
  if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%") == std::string::npos && !word.empty())
    return word;
  std::string out = "'";
  for (char c : word)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string search::planCommand(const Candidate &candidate, const Request &request, const std::string &more) {
  const predict::PriceOptions &prices = request.prices;
  std::string line = "llmc plan " + quoted(request.options.model);
  line += prices.cluster.empty() ? " --gpu " + prices.gpu : " --cluster " + quoted(prices.cluster);
  auto number = [&](const char *flag, double value) {
    if (value > 0)
      line += text(" ", flag, " ", support::realText(value));
  };
  number("--gpus-per-node", double(prices.gpusPerNode));
  number("--nvlink-domain", double(prices.nvlinkDomain));
  number("--nic-gbytes", prices.nicGbytes);
  number("--board-watts", prices.boardWatts);
  number("--seq", double(request.options.sequence));
  number("--moe-budget", request.options.moeBudget);
  for (const auto &[name, size] : request.options.dims)
    line += text(" --dim ", quoted(name), "=", size);
  if (request.options.cpKind == CpKind::Heads && candidate.layout.cp > 1)
    line += " --cp-kind heads";
  auto onOff = [&](const char *flag, std::optional<bool> value) {
    if (value)
      line += text(" ", flag, *value ? " on" : " off");
  };
  onOff("--overlap", prices.overlap), onOff("--cuda-graphs", prices.cudaGraphs), onOff("--launch-blocking", prices.launchBlocking);
  onOff("--ep-overlap", prices.expertOverlap), onOff("--tp-overlap", prices.tensorOverlap);
  onOff("--pipeline-scatter", prices.pipelineScatter);
  if (prices.choices.software != cost::Profile::Llmc)
    line += prices.choices.software == cost::Profile::Fused ? " --software fused" : " --software eager";
  if (prices.unfused)
    line += *prices.unfused ? " --attention unfused" : " --attention flash";
  constexpr const char *kernels[] = {"unfused", "fused_softmax", "triton", "flash1", "flash2", "flash3", "cudnn"};
  if (prices.attention)
    line += text(" --attention-kernel ", kernels[int(*prices.attention)]);
  constexpr const char *dispatches[] = {"alltoall", "allgather", "deepep", "hybridep"};
  if (prices.choices.dispatch != cost::Dispatch::AllToAll)
    line += text(" --moe-dispatch ", dispatches[int(prices.choices.dispatch)]);
  if (prices.choices.offload != cost::Offload::None && more.find("--offload") == std::string::npos)
    line += prices.choices.offload == cost::Offload::Optimizer ? " --offload optimizer" : " --offload activations";
  if (prices.precision)
    line += text(" --precision ", cost::nameOf(*prices.precision));
  if (prices.reduced)
    line += text(" --reduce-dtype ", cost::nameOf(*prices.reduced));
  if (prices.moments)
    line += text(" --optimizer-dtype ", cost::nameOf(*prices.moments));
  return line + " " + lineOf(flagsOf(candidate, request)) + (more.empty() ? "" : " " + more);
}

Candidate search::candidateOf(const CompileOptions &options, const cost::Choices &c) {
  Candidate candidate;
  candidate.layout = {options.tp, options.cp, options.ep, options.etp, c.sequenceParallel, c.gradients};
  candidate.dp = options.dp, candidate.pp = options.pp;
  candidate.chunks = c.chunks, candidate.microBatch = c.microBatch, candidate.microBatches = c.microBatches;
  candidate.order = c.order, candidate.zero = c.zero, candidate.recompute = c.recompute, candidate.stages = c.stages;
  return candidate;
}
