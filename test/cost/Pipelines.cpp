// Schedules run on passes of equal length, beside the idle time and the memory that their papers give.
#include "lib/cost/PlanPipeline.h"
#include "lib/schedules/Schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

using namespace llmc;
using namespace llmc::cost;

namespace {

double endOf(int64_t p, int64_t v, Order order, int64_t m, ChunkPasses each, double message = 0) {
  std::vector<std::vector<ChunkPasses>> passes(p, std::vector<ChunkPasses>(v, each));
  std::vector<double> ends = runSchedule(passes, order, m, message);
  return *std::max_element(ends.begin(), ends.end());
}

// Waits p - 1 times for a forward and a backward (Narayanan et al., 2021, section 2.2), of interleaved chunks 1 / v of that.
TEST(Pipeline, FillsAndDrainsAsInThePapers) {
  for (int64_t p : {1, 2, 4, 8})
    for (int64_t m : {p, 2 * p, 4 * p}) {
      EXPECT_NEAR(endOf(p, 1, Order::OneFOneB, m, {1, 2, 0}), 3 * double(m + p - 1), 1e-9) << p << " " << m;
      EXPECT_NEAR(endOf(p, 1, Order::GPipe, m, {1, 2, 0}), 3 * double(m + p - 1), 1e-9) << p << " " << m;
      if (p > 1)
        EXPECT_NEAR(endOf(p, 2, Order::Interleaved, m, {0.5, 1, 0}), 3 * double(m) + 1.5 * double(p - 1), 1e-9) << p << " " << m;
      // Waits p - 1 times the sum of a forward and a backward less the gradients of weights (Qi et al., 2024, Table 1).
      EXPECT_NEAR(endOf(p, 1, Order::ZeroBubble, m, {1, 1, 1}), 3 * double(m) + double(p - 1), 1e-9) << p << " " << m;
    }
}

// Sends each micro-batch p - 1 times on and p - 1 times back.
TEST(Pipeline, WaitsForMessages) {
  EXPECT_NEAR(endOf(4, 1, Order::GPipe, 8, {1, 2, 0}, 0.25), 3 * 11 + 6 * 0.25, 1e-9);
}

// Exchanges messages in columns of the schedule: where all passes are equal, a pass waits for what it needs alone.
TEST(Pipeline, ExchangesHoldUpNoEqualPasses) {
  for (auto [order, v, each] : {std::tuple(Order::GPipe, 1, ChunkPasses{1, 1, 0}), {Order::OneFOneB, 1, {1, 1, 0}},
                                {Order::Interleaved, 2, {1, 1, 0}}, {Order::ZeroBubble, 1, {1, 1, 1}}})
    for (int64_t p : {1, 2, 4, 8}) {
      if (order == Order::Interleaved && p == 1)
        continue;
      std::vector<std::vector<ChunkPasses>> passes(p, std::vector<ChunkPasses>(v, each));
      for (int64_t m : {2 * p, 20 * p}) // more than 8 p are not run one by one
        EXPECT_EQ(runExchanges(passes, order, m, 0), runSchedule(passes, order, m, 0)) << int(order) << ", " << p << ", " << m;
    }
}

// Holds passes of unequal length up for less than one of them in a step, and no stage ends before its messages let it.
TEST(Pipeline, ExchangesHoldUpLittle) {
  for (auto [order, weights] : {std::pair(Order::GPipe, 0.0), {Order::OneFOneB, 0.0}, {Order::ZeroBubble, 0.5}})
    for (int64_t p : {2, 3, 4}) {
      std::vector<std::vector<ChunkPasses>> passes(p, {ChunkPasses{1, 2 - weights, weights}});
      passes.back().front().backward += 1; // has the head
      std::vector<double> ours = runExchanges(passes, order, 3 * p, 0.01), least = runSchedule(passes, order, 3 * p, 0.01);
      for (int64_t stage = 0; stage < p; ++stage) {
        EXPECT_GE(ours[stage], least[stage] - 1e-9) << int(order) << ", " << p;
        EXPECT_LT(ours[stage], least[stage] + 1) << int(order) << ", " << p;
      }
    }
}

// Counts what is alive of all micro-batches, of which countAlive takes few.
TEST(Pipeline, CountsWhatIsAliveOfMany) {
  for (Order order : {Order::OneFOneB, Order::GPipe, Order::ZeroBubble, Order::Interleaved})
    for (int64_t p : {2, 3, 4, 8})
      for (int64_t v : order == Order::Interleaved ? std::vector<int64_t>{2, 3, 5} : std::vector<int64_t>{1})
        for (int64_t m : order == Order::Interleaved ? std::vector<int64_t>{p, 5 * p, 12 * p} : std::vector<int64_t>{1, 3, 5 * p + 1, 12 * p - 1}) {
          Choices choices;
          choices.order = order, choices.mesh.pp = p, choices.chunks = v, choices.microBatches = m;
          auto counted = countAlive(choices);
          const char *name = order == Order::OneFOneB ? "1f1b" : order == Order::GPipe ? "gpipe" : order == Order::ZeroBubble ? "zero-bubble" : "interleaved";
          for (int64_t stage = 0; stage < p; ++stage) {
            std::vector<int64_t> now(v), most(v);
            for (const Step &step : stepsOf(name, m, v, stage, p)) {
              now[step.chunk] += step.kind == StepKind::F ? 1 : step.kind == StepKind::B ? -1 : 0;
              most[step.chunk] = std::max(most[step.chunk], now[step.chunk] + (step.kind == StepKind::B));
            }
            for (int64_t chunk = 0; chunk < v; ++chunk)
              EXPECT_EQ((*counted)[stage][chunk].toBackward, most[chunk]) << name << " p " << p << " v " << v << " m " << m << " stage " << stage;
          }
        }
}

TEST(Pipeline, KeepsAsManyMicroBatchesAsThePapersSay) {
  Choices choices;
  choices.mesh.pp = 4;
  choices.microBatches = 8;
  for (int64_t stage = 0; stage < 4; ++stage) {
    choices.chunks = 1;
    choices.order = Order::OneFOneB;
    EXPECT_EQ((*countAlive(choices))[stage][0].toBackward, 4 - stage);
    choices.order = Order::GPipe;
    EXPECT_EQ((*countAlive(choices))[stage][0].toBackward, 8);
    choices.order = Order::ZeroBubble;
    EXPECT_EQ((*countAlive(choices))[stage][0].toBackward, 4 - stage);
    EXPECT_EQ((*countAlive(choices))[stage][0].toWeights, 4);
    EXPECT_EQ((*countAlive(choices))[stage][0].fromBackward, stage + 1);
    // Korthikanti et al., 2022, section 4.2.3: 2 (p - s - 1) + (v - 1) p + 1 of all chunks.
    choices.chunks = 2;
    choices.order = Order::Interleaved;
    std::vector<Alive> alive = (*countAlive(choices))[stage];
    EXPECT_GE(alive[0].toBackward + alive[1].toBackward, 2 * (4 - stage - 1) + 4 + 1);
  }
}

} // namespace
