// Laws that hold whatever the numbers: over drawn models, meshes and machines.
#include "Tables.h"

#include "lib/cost/Collectives.h"
#include "lib/cost/Memory.h"
#include "lib/cost/Stages.h"

#include <gtest/gtest.h>

#include <random>

using namespace llmc;
using namespace llmc::cost;
using namespace llmc::test;

namespace {

constexpr int kDraws = 500;

// Holds one drawn run.
struct Drawn {
  Table table;
  Machine machine;
};

class Draws {
public:
  explicit Draws(unsigned seed) : random_(seed) {}

  Drawn run() {
    const char *gpus[] = {"a100-40g", "a100-80g", "h100", "h200", "b200", "gb300"};
    int64_t tp = int64_t(1) << below(4), pp = int64_t(1) << below(4), dp = int64_t(1) << below(7);
    int64_t m = pp * (1 + below(8)), v = pp > 1 && below(2) ? 2 : 1;
    Drawn out{uniformTable(int(pp * v * (1 + below(4))), 512 << below(5), 512 << below(5), double(tp)),
              machineOf(gpus[below(6)], {.dp = dp, .pp = pp, .tp = tp}, m)};
    Choices &c = out.machine.choices;
    c.chunks = v;
    c.order = v > 1 ? Order::Interleaved : Order::OneFOneB;
    c.zero = dp > 1 ? below(4) : 0;
    c.recompute = Kept(below(3));
    c.software = Profile(below(3));
    if (c.software == Profile::Llmc)
      out.table = planTable(out.table, dp, tp, c.zero);
    c.overlap = below(2);
    c.tensorOverlap = tp > 1 && below(2);
    c.pipelineScatter = below(2);
    c.precision = c.software != Profile::Llmc && out.machine.cluster.peakFp8 > 0 && below(3) == 0 ? Number::Fp8 : Number::Bf16;
    return out;
  }

  int below(int end) { return int(random_() % unsigned(end)); }
  double factor() { return 1 + double(random_() % 1000) / 250; }

private:
  std::mt19937 random_;
};

TEST(Laws, NothingFasterMakesAStepLonger) {
  Draws draws(1);
  for (int i = 0; i < kDraws; ++i) {
    Drawn run = draws.run();
    Machine faster = run.machine;
    double f = draws.factor();
    Cluster &c = faster.cluster;
    int kind = draws.below(5);
    switch (kind) {
    case 0:
      c.nvlink *= f;
      break;
    case 1:
      c.nic *= f;
      break;
    case 2:
      c.memoryBandwidth *= f;
      break;
    case 3:
      c.peak16 *= f, c.peakFp8 *= f, c.peakFp32 *= f;
      break;
    default:
      c.nicLatency /= f, c.linkLatency /= f;
    }
    double before = predictStep(run.table, run.machine).step, after = predictStep(run.table, faster).step;
    EXPECT_LE(after, before * (1 + 1e-12)) << "draw " << i << ", change " << kind << " by " << f;
  }
}

TEST(Laws, TimeIsAdditiveInLayers) {
  Draws draws(2);
  for (int i = 0; i < kDraws; ++i) {
    Drawn run = draws.run();
    run.machine.constants.perStep = 0;
    run.machine.choices.overlap = false; // of which the share of the first layer is exposed
    auto time = [&] {
      TimeParts parts = predictStep(run.table, run.machine).parts;
      // Leaves out messages and bubbles, which are of a stage, and of our own plans kernels of an update and
      // buckets of gradients, of which one may be for several layers.
      return parts.sum() - parts.pp - (run.machine.choices.mesh.pp > 1 ? parts.bubble : 0) - (run.table.isOfPlan ? parts.optimizer + (run.machine.choices.zero ? 0 : parts.dp) : 0);
    };
    size_t layers = run.table.layers.size();
    double one = time();
    run.table.layers.assign(2 * layers, 0);
    EXPECT_NEAR(time() / one, 2, 0.02) << "draw " << i;
  }
}

TEST(Laws, PartsSumToTheStep) {
  Draws draws(3);
  for (int i = 0; i < kDraws; ++i) {
    Drawn run = draws.run();
    StepTime time = predictStep(run.table, run.machine);
    EXPECT_DOUBLE_EQ(time.parts.sum(), time.step);
    for (double part : {time.parts.compute, time.parts.tp, time.parts.dp, time.parts.pp, time.parts.bubble,
                        time.parts.optimizer, time.parts.host, time.bubbleFraction})
      EXPECT_GE(part, 0) << "draw " << i;
  }
}

TEST(Laws, SchedulesKeepTheirOrder) {
  Draws draws(4);
  for (int i = 0; i < kDraws; ++i) {
    Drawn run = draws.run();
    Choices &c = run.machine.choices;
    c.mesh.pp = 4, c.chunks = 1, c.microBatches = 8;
    run.machine.cluster.nic = run.machine.cluster.nvlink = 1e18; // messages of chunks take no time
    run.machine.cluster.nicLatency = run.machine.cluster.linkLatency = 0;
    run.table.layers.assign(16, 0);
    c.order = Order::OneFOneB;
    StepTime plain = predictStep(run.table, run.machine);
    c.order = Order::ZeroBubble;
    EXPECT_LT(predictStep(run.table.isOfPlan ? splitBackward(run.table) : run.table, run.machine).step, plain.step) << "draw " << i;
    c.order = Order::Interleaved, c.chunks = 4;
    // Gathers weights for each chunk anew with ZeRO 3.
    if (!run.table.isOfPlan || c.zero < 2)
      // Exchanges of our own plans wait for all of their messages.
      EXPECT_NEAR(predictStep(run.table, run.machine).parts.bubble * 4, plain.parts.bubble,
                  run.table.isOfPlan ? 0.03 * plain.parts.bubble : 1e-6 * plain.step);
  }
}

// Prices rows that are exchanged with experts of several nodes as any exchange of as many bytes, where each copy is sent.
TEST(Laws, ExchangesHaveOnePrice) {
  Machine machine = machineOf("h100", {.dp = 64}, 1);
  machine.choices.dispatch = Dispatch::AllToAll;
  for (Group group : {Group{8, 1}, Group{8, 4}, Group{16, 4}, Group{64, 1}})
    for (double bytes : {64.0, 4e6, 1e9})
      EXPECT_DOUBLE_EQ(exchangeTime(machine, group, bytes, 2), timeOf(machine, {Transfer::AllToAll, Role::Data, group, bytes}));
}

// Prices a sum among ranks that share an expert as any other sum.
TEST(Laws, SumsOfExpertsAreNoExchanges) {
  Machine machine = machineOf("h100", {.dp = 2, .tp = 4}, 1);
  for (Transfer kind : {Transfer::AllReduce, Transfer::ReduceScatter, Transfer::AllGather}) {
    Table table = planTable(uniformTable(1, 1024, 1024, 4), 2, 4, 0);
    Work &work = table.kinds[0].forward;
    const Collective sum{kind, Role::Expert, {4, 1}, 33e6};
    const double without = priceParts(table, machine).kinds[0].forward.exposed.ep;
    work.order.push_back({.kind = Entry::OfCollective, .index = work.collectives.size(), .until = work.order.size() + 1});
    work.collectives.push_back(sum);
    EXPECT_NEAR(priceParts(table, machine).kinds[0].forward.exposed.ep - without, timeOf(machine, sum), 1e-9) << int(kind);
  }
}

TEST(Laws, MoreMemoryKeepsWhatFits) {
  Draws draws(5);
  for (int i = 0; i < kDraws; ++i) {
    Drawn run = draws.run();
    double peak = 0;
    for (const MemoryParts &stage : predictMemory(run.table, run.machine))
      peak = std::max(peak, stage.sum());
    Machine larger = run.machine;
    larger.cluster.memoryBytes *= draws.factor();
    for (const MemoryParts &stage : predictMemory(run.table, larger))
      EXPECT_LE(stage.sum(), peak) << "draw " << i;
  }
}

} // namespace
