// Plans in virtual time: schedules with known bubbles, and what workers and streams share.
#include "lib/simulate/Simulation.h"

#include "lib/planfile/Program.h"
#include "test/planfile/ChunkPlan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace llmc;
using namespace llmc::simulate;
using planfile::Body;
using test::ChunkKernel;
using test::ChunkShape;

namespace {

// Prices kernels of a hand-made plan; all else as told.
struct KernelPrices : Prices {
  double forward = 1, backward = 1, weight = 1, messages = 0, collectives = 0;

  double compute(const runtime::StageProgram &, const runtime::Op &op) const override {
    if (op.kind != Body::Launch)
      return 0;
    switch (ChunkKernel(op.index)) {
    case ChunkKernel::Forward:
      return forward;
    case ChunkKernel::Backward:
      return backward;
    case ChunkKernel::AddWeight:
      return weight;
    default:
      return 0;
    }
  }
  double collective(const runtime::StageProgram &, const runtime::Op &) const override { return collectives; }
  double message(const runtime::StageProgram &, const runtime::Op &) const override { return messages; }
  double issue(const runtime::StageProgram &, const runtime::Op &) const override { return 0; }
};

Timeline run(const planfile::ProgramT &program, const Prices &prices, unsigned workers = 0) {
  Stages stages = layOut(program);
  auto timeline = simulate::simulate(program, stages, prices, {workers});
  EXPECT_TRUE(timeline) << timeline.message();
  return timeline ? std::move(*timeline) : Timeline();
}

ChunkShape shapeOf(unsigned stages, unsigned microBatches, unsigned dp = 1) {
  ChunkShape shape;
  shape.stages = stages, shape.chunks = 1, shape.microBatches = microBatches, shape.dp = dp;
  shape.activations = stages + 1, shape.gradients = microBatches;
  return shape;
}

double computed(const Timeline &timeline) {
  double sum = 0;
  for (const RankTime &rank : timeline.ranks)
    sum += rank.compute;
  return sum;
}

TEST(Simulation, OneStageIsBusyThroughout) {
  auto program = test::makeChunkPlan(shapeOf(1, 4));
  Timeline timeline = run(*program, KernelPrices());
  EXPECT_NEAR(timeline.step, 4 * 3, 1e-9);
  EXPECT_NEAR(timeline.ranks[0].compute, timeline.step, 1e-6);
}

TEST(Simulation, StagesWaitForTheFirstAndTheLastMicroBatch) {
  // Takes as long as the first stage's forward and all that the last one does at the least, and computes what it must.
  for (auto [stages, microBatches] : {std::pair(2u, 4u), {4u, 8u}, {8u, 32u}}) {
    KernelPrices prices;
    auto program = test::makeChunkPlan(shapeOf(stages, microBatches));
    Timeline timeline = run(*program, prices);
    EXPECT_NEAR(computed(timeline), 3.0 * microBatches * stages, 1e-6);
    EXPECT_GE(timeline.step, 3.0 * microBatches + stages - 1 - 1e-9);
    EXPECT_LE(timeline.step, 3.0 * (microBatches + stages));
  }
}

TEST(Simulation, AccountsForEveryMoment) {
  KernelPrices prices;
  prices.messages = 0.3, prices.collectives = 0.7;
  for (unsigned workers : {0u, 1u, 2u, 3u}) {
    Timeline timeline = run(*test::makeChunkPlan(shapeOf(4, 8, 2)), prices, workers);
    ASSERT_EQ(timeline.ranks.size(), workers ? 8u : 4u);
    for (const RankTime &rank : timeline.ranks) {
      double sum = rank.compute + rank.idle;
      for (const auto &[axes, seconds] : rank.exposed)
        sum += seconds;
      EXPECT_NEAR(sum, timeline.step, 1e-6) << "rank " << rank.rank;
    }
  }
}

TEST(Simulation, OneWorkerDoesAllOneAfterTheOther) {
  KernelPrices prices;
  auto program = test::makeChunkPlan(shapeOf(3, 6, 2));
  Timeline timeline = run(*program, prices, 1);
  EXPECT_NEAR(timeline.step, computed(timeline), 1e-6);
}

TEST(Simulation, MoreWorkersAreNeverSlowerThanOneNorFasterThanStreams) {
  std::minstd_rand draw(1);
  for (int i = 0; i < 100; ++i) {
    unsigned stages = 1 + draw() % 4, microBatches = stages * (1 + draw() % 3), dp = 1 + draw() % 2;
    auto program = test::makeChunkPlan(shapeOf(stages, microBatches, dp));
    KernelPrices prices;
    prices.forward = 0.5 + draw() % 8 * 0.25, prices.backward = 0.5 + draw() % 8 * 0.25, prices.weight = draw() % 4 * 0.5;
    prices.messages = draw() % 3 * 0.1, prices.collectives = draw() % 3 * 0.1;
    Timeline streams = run(*program, prices), one = run(*program, prices, 1);
    for (unsigned workers = 2; workers <= stages * dp; ++workers) {
      Timeline some = run(*program, prices, workers);
      EXPECT_LE(some.step, one.step + 1e-6);
      EXPECT_GE(some.step * workers + 1e-6, computed(some));
    }
    EXPECT_LE(streams.step, one.step + 1e-6) << stages << " stages, " << microBatches << " micro-batches";
  }
}

TEST(Simulation, RunsEveryInstructionOfEveryEntryOnce) {
  ChunkShape shape;
  shape.stages = 2, shape.chunks = 2, shape.microBatches = 4, shape.dp = 2, shape.activations = 4, shape.gradients = 2;
  auto program = test::makeChunkPlan(shape);
  Stages stages = layOut(*program);
  for (unsigned workers : {0u, 2u}) {
    auto timeline = simulate::simulate(*program, stages, KernelPrices(), {workers});
    ASSERT_TRUE(timeline) << timeline.message();
    std::map<uint32_t, size_t> events;
    for (const runtime::TraceEvent &event : timeline->events)
      ++events[event.rank];
    for (auto [rank, count] : events) {
      const runtime::StageProgram &stage = *stages[planfile::stageOf(*program, rank)];
      size_t all = 0;
      for (const auto &entry : stage.table)
        for (const auto &stream : stage.procedures[entry.procedure].byStream)
          all += stream.size();
      EXPECT_EQ(count, all) << "rank " << rank << ", " << workers << " workers";
    }
  }
}

TEST(Simulation, TellsWhoWaitsForEver) {
  // Drops the sends of stage 0: stage 1 never gets a micro-batch.
  auto program = test::makeChunkPlan(shapeOf(2, 2));
  for (auto &procedure : program->stages[0]->procedures)
    std::erase_if(procedure->instructions, [](const auto &instruction) { return instruction->body.type == Body::Send; });
  Stages stages = layOut(*program);
  for (unsigned workers : {0u, 2u}) {
    auto timeline = simulate::simulate(*program, stages, KernelPrices(), {workers});
    ASSERT_FALSE(timeline);
    EXPECT_NE(timeline.message().find("waits for ever"), std::string::npos) << timeline.message();
  }
}

} // namespace
