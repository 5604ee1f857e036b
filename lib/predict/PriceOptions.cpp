#include "lib/predict/PriceOptions.h"

#include "lib/support/FlagSetters.h"

using namespace llmc;
using namespace llmc::cost;
using llmc::support::text;

Number predict::numberOf(Precision precision) {
  return precision == Precision::Fp32 ? Number::Fp32 : precision == Precision::Bf16 ? Number::Bf16 : Number::Fp16;
}

Precision predict::precisionOf(Number number) {
  return number == Number::Fp32 ? Precision::Fp32 : number == Number::Fp16 ? Precision::Fp16 : Precision::Bf16;
}

Kept predict::keptOf(Recompute recompute) {
  return recompute == Recompute::Full ? Kept::Full : recompute == Recompute::Selective ? Kept::Selective : Kept::All;
}

Recompute predict::recomputeOf(Kept kept) {
  return kept == Kept::Full ? Recompute::Full : kept == Kept::Selective ? Recompute::Selective : Recompute::None;
}

Order predict::orderOf(Schedule schedule) {
  switch (schedule) {
  case Schedule::GPipe:
    return Order::GPipe;
  case Schedule::Interleaved:
    return Order::Interleaved;
  case Schedule::ZeroBubble:
    return Order::ZeroBubble;
  default:
    return Order::OneFOneB;
  }
}

Schedule predict::scheduleOf(Order order) {
  for (Schedule schedule : {Schedule::GPipe, Schedule::Interleaved, Schedule::ZeroBubble})
    if (orderOf(schedule) == order)
      return schedule;
  return Schedule::OneFOneB;
}

predict::PriceOptions predict::asCompiled(PriceOptions prices, const CompileOptions &options) {
  prices.precision = numberOf(options.precision.value_or(Precision::Fp32));
  prices.gradients = numberOf(options.gradDtype);
  if (options.reduceDtype)
    prices.reduced = numberOf(*options.reduceDtype);
  return prices;
}

std::optional<Cluster> predict::clusterOf(const PriceOptions &prices, std::vector<std::string> &errors) {
  if (prices.gpu.empty() && prices.cluster.empty()) {
    std::string names;
    for (const std::string &name : gpuNames())
      names += (names.empty() ? "" : ", ") + name;
    errors.push_back("a prediction needs an accelerator: --gpu NAME (" + names + "), or --cluster FILE");
    return std::nullopt;
  }
  auto cluster = prices.cluster.empty() ? findGpu(prices.gpu) : readCluster(prices.cluster);
  if (!cluster) {
    errors.push_back(cluster.message());
    return std::nullopt;
  }
  if (prices.gpus)
    cluster->gpus = prices.gpus;
  if (prices.gpusPerNode) {
    // A domain of one node follows the size of the node.
    if (cluster->nvlinkDomain == cluster->gpusPerNode)
      cluster->nvlinkDomain = prices.gpusPerNode;
    cluster->gpusPerNode = prices.gpusPerNode;
  }
  if (prices.nvlinkDomain)
    cluster->nvlinkDomain = prices.nvlinkDomain;
  if (prices.nicGbytes > 0)
    cluster->nic = prices.nicGbytes * 1e9;
  if (prices.boardWatts > 0)
    cluster->watts = prices.boardWatts;
  return *cluster;
}

AttentionKernel predict::newestKernel(const Cluster &cluster, bool unfused) {
  if (unfused)
    return AttentionKernel::FusedSoftmax;
  return cluster.generation == Generation::Ampere || cluster.generation == Generation::Cpu ? AttentionKernel::Flash2
                                                                                           : AttentionKernel::Cudnn;
}

void predict::setDataRanks(int64_t gpus, CompileOptions &options) {
  int64_t others = options.pp;
  for (int64_t size : {options.tp, options.cp})
    if (__builtin_mul_overflow(others, size, &others))
      return;
  if (others > 0 && gpus % others == 0)
    options.dp = gpus / others;
}

namespace {

// Checks that there are as many ranks as accelerators; the size of dp follows where nothing else says it.
void fitRanks(const Cluster &cluster, CompileOptions &options, bool hasDataSize, std::vector<std::string> &errors) {
  if (!cluster.gpus)
    return;
  if (!hasDataSize)
    predict::setDataRanks(cluster.gpus, options);
  if (options.ranks() != cluster.gpus)
    errors.push_back(text("dp x pp x tp x cp is ", options.dp, " x ", options.pp, " x ", options.tp, " x ", options.cp,
                          " = ", options.ranks(), " ranks, and there are ", cluster.gpus,
                          " accelerators: they must be equal; leave out --dp or --gpus, and it follows"));
}

} // namespace

std::optional<Machine> predict::resolve(const PriceOptions &prices, CompileOptions &options, bool hasDataSize,
                                        std::vector<std::string> &errors) {
  std::optional<Cluster> cluster = clusterOf(prices, errors);
  if (!cluster)
    return std::nullopt;
  fitRanks(*cluster, options, hasDataSize, errors);
  Machine machine;
  Choices &c = machine.choices;
  c = prices.choices;
  bool cpu = cluster->generation == Generation::Cpu;
  c.precision = prices.precision.value_or(cpu ? Number::Fp32 : Number::Bf16);
  if (c.precision == Number::Fp8 && cluster->peakFp8 <= 0)
    errors.push_back(text("--precision fp8: ", cluster->name, " has no products in fp8; use bf16"));
  options.precision = precisionOf(c.precision);
  c.gradients = prices.gradients.value_or(Number::Fp32);
  c.reduced = prices.reduced.value_or(c.gradients);
  if (c.software == Profile::Llmc) { // whose plans have these sums
    options.gradDtype = precisionOf(c.gradients);
    if (prices.reduced)
      options.reduceDtype = precisionOf(*prices.reduced);
  }
  c.moments = prices.moments.value_or(Number::Fp32);
  c.attention = prices.attention.value_or(newestKernel(*cluster, prices.unfused.value_or(false)));
  if (prices.unfused && *prices.unfused != writesScores(c.attention))
    errors.push_back(*prices.unfused
                         ? "--attention unfused writes scores to memory, and the kernel of --attention-kernel does "
                           "not: use unfused or fused_softmax, or leave one of both out"
                         : "--attention flash keeps scores on chip, and the kernel of --attention-kernel writes "
                           "them to memory: use flash2 or cudnn, or leave one of both out");
  if (c.attention == AttentionKernel::Flash3 && cluster->generation == Generation::Ampere)
    errors.push_back(text("--attention-kernel flash3 is for Hopper, and ", cluster->name, " is older: use flash2"));
  Schedule schedule = options.scheduleKind();
  if (options.pp == 1 && (schedule == Schedule::Interleaved || schedule == Schedule::ZeroBubble))
    errors.push_back(text("--schedule ", nameOf(schedule), options.virtualStages ? " (--virtual-stages)" : "",
                          " is for several stages, and there is one: use --pp 2 or more, or leave it out"));
  else if (schedule == Schedule::Interleaved && options.chunks() < 2)
    errors.push_back(
        "--schedule interleaved runs at least two chunks of layers a stage: use --virtual-stages 2 or more");
  else if (schedule != Schedule::Interleaved && options.chunks() > 1)
    errors.push_back(
        text("--schedule ", nameOf(schedule), " runs one chunk of layers a stage: use --virtual-stages 1"));
  c.overlap = prices.overlap.value_or(true);
  c.cudaGraphs = prices.cudaGraphs.value_or(false);
  c.launchBlocking = prices.launchBlocking.value_or(false);
  c.expertOverlap = prices.expertOverlap.value_or(false);
  c.tensorOverlap = prices.tensorOverlap.value_or(false);
  c.pipelineScatter = prices.pipelineScatter.value_or(false);
  for (auto [name, isOn, role] : {std::tuple("--ep-overlap", c.expertOverlap, planfile::AxisRole::Expert),
                                  {"--tp-overlap", c.tensorOverlap, planfile::AxisRole::Tensor},
                                  {"--pipeline-scatter", c.pipelineScatter, planfile::AxisRole::Stages}})
    if (isOn && options.of(role) == 1)
      errors.push_back(text(name, " on is for what ", planfile::nameOf(role), " sends, and ", planfile::nameOf(role),
                            " is 1: leave it out"));
  c.chunks = options.chunks();
  c.microBatch = options.microBatch;
  c.zero = options.zeroStage();
  c.recompute = keptOf(options.recompute);
  c.stages = options.stages;
  c.order = orderOf(options.scheduleKind());
  c.mesh = options.meshSizes(options.ep > 1);
  c.microBatches = options.microBatches();
  c.sequenceParallel = options.tp > 1 && options.sequenceParallel.value_or(true);
  machine.cluster = std::move(*cluster);
  return machine;
}
