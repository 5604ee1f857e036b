// Near-ties are replayed, and only these: a choice that the scores do not make, or not nearly, stays and is told.
#include "lib/verify/routes/RouteReplay.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace llmc;
using planfile::Phase;
using verify::ChosenRoutes;
using verify::RouteReplay;

namespace {

// Holds a plan of a router, 1 of 4 experts, for 2 micro-batches of one row of 2 tokens, cut over 2 ranks of tp;
// both of dp have the same.
struct Plan {
  planfile::ProgramT program;
  planfile::RoutesT *routes;

  Plan() {
    program.mesh = std::make_unique<planfile::MeshT>();
    for (const char *name : {"pp", "dp", "tp"}) {
      program.mesh->axes.push_back(std::make_unique<planfile::AxisT>());
      program.mesh->axes.back()->name = name;
      program.mesh->axes.back()->size = program.mesh->axes.size() == 1 ? 1 : 2;
    }
    program.micro_batches = program.global_batch = 2;
    planfile::LaunchT launch;
    launch.routes = std::make_unique<planfile::RoutesT>();
    launch.routes->router = "gate";
    launch.routes->global_shape = {1, 2, 1};
    launch.routes->local_shape = {1, 1, 1};
    launch.routes->experts = 4;
    for (std::vector<uint32_t> axes : {std::vector<uint32_t>{}, {2}, {}}) {
      launch.routes->dims.push_back(std::make_unique<planfile::DimShardingT>());
      launch.routes->dims.back()->axes = axes;
    }
    auto instruction = std::make_unique<planfile::InstructionT>();
    instruction->body.Set(std::move(launch));
    auto procedure = std::make_unique<planfile::ProcedureT>();
    procedure->instructions.push_back(std::move(instruction));
    program.stages.push_back(std::make_unique<planfile::StageT>());
    program.stages[0]->procedures.push_back(std::move(procedure));
    routes = program.stages[0]->procedures[0]->instructions[0]->body.AsLaunch()->routes.get();
  }
};

// Shows the choice of one rank, and returns what becomes of it.
struct Choice {
  std::vector<float> scores, bias;
  uint32_t dp = 0, tp = 0, microBatch = 0;
  Phase phase = Phase::Forward;

  int64_t shown(const Plan &plan, RouteReplay &replay, int64_t expert) const {
    std::vector<uint32_t> coordinate = {0, dp, tp};
    replay.hook()({*plan.routes, phase, coordinate, microBatch, scores.data(), bias.empty() ? nullptr : bias.data(), &expert});
    return expert;
  }
};

TEST(RouteReplay, NearTiesAreReplayed) {
  Plan plan;
  std::vector<ChosenRoutes> wanted = {{{"gate", {0, 1, 2, 3}}}};
  RouteReplay replay(plan.program, wanted, 0.01);
  replay.beginStep(0);
  Choice near{{1, 1, 1, 1.005f}, {}};
  for (uint32_t dp : {0, 1}) // copies are corrected too, and counted once
    for (uint32_t microBatch : {0, 1})
      for (uint32_t tp : {0, 1}) {
        near.dp = dp, near.tp = tp, near.microBatch = microBatch;
        EXPECT_EQ(near.shown(plan, replay, 3), 2 * microBatch + tp);
      }
  near.phase = Phase::Backward;
  near.tp = 0;
  EXPECT_EQ(near.shown(plan, replay, 3), 2);
  EXPECT_EQ(replay.result().choices, 4u);
  EXPECT_EQ(replay.result().replayed, 3u);
  EXPECT_EQ(replay.result().text(), "3 of 4 choices replayed");
  EXPECT_NEAR(replay.result().gap, 0.005 / 1.005, 1e-6);
  EXPECT_TRUE(replay.result().faults.empty());
}

// A kernel adds the scores of a group in fp32, where groups may tie that differ in fp64.
TEST(RouteReplay, GroupsMayTieInTheKernel) {
  Plan plan;
  plan.routes->groups = 2;
  plan.routes->group_terms = 2;
  plan.routes->kept_groups = 1;
  std::vector<ChosenRoutes> wanted = {{{"gate", {2, 2, 2, 2}}}};
  RouteReplay replay(plan.program, wanted, 0.01);
  replay.beginStep(0);
  EXPECT_EQ((Choice{{1, 0, 1, 0x1p-25f}, {}}.shown(plan, replay, 0)), 2);
  EXPECT_TRUE(replay.result().faults.empty());
  EXPECT_EQ(replay.result().replayed, 1u);
  // Chooses the lesser group where fp32 tells them apart.
  EXPECT_EQ((Choice{{1, 0, 1, 0x1p-20f}, {}}.shown(plan, replay, 0)), 0);
  ASSERT_EQ(replay.result().faults.size(), 1u);
  EXPECT_NE(replay.result().faults[0].find("the kernel chooses expert 0"), std::string::npos);
}

TEST(RouteReplay, ABiasCounts) {
  Plan plan;
  std::vector<ChosenRoutes> wanted = {{{"gate", {0, 1, 2, 3}}}};
  RouteReplay replay(plan.program, wanted, 0.01);
  Choice biased{{0, 1, 1, 1}, {1, 0, 0, 0.005f}};
  EXPECT_EQ(biased.shown(plan, replay, 3), 0);
  EXPECT_EQ(replay.result().replayed, 1u);
}

TEST(RouteReplay, OthersStayAndAreTold) {
  Plan plan;
  std::vector<ChosenRoutes> wanted = {{{"gate", {0, 1, 2, 3}}}};
  RouteReplay far(plan.program, wanted, 0.01);
  Choice choice{{1, 1, 1, 1.5f}, {}};
  choice.microBatch = 1;
  EXPECT_EQ(choice.shown(plan, far, 3), 3);
  EXPECT_NEAR(far.result().gap, 1 / 3.0, 1e-6);
  ASSERT_EQ(far.result().faults.size(), 1u);
  EXPECT_EQ(far.result().faults[0],
            "gate, step 1, row 1, token 0: fp64 chooses expert 2 (score 1), the kernel's scores prefer expert 3 (1.5), by 0.5");
  // Finds a kernel that does not choose by its scores, however near they are.
  for (int64_t expert : {1, 4, -1}) {
    RouteReplay wrong(plan.program, wanted, 0.01);
    Choice of{{1.001f, 1, 1, 1}, {}};
    EXPECT_EQ(of.shown(plan, wrong, expert), expert);
    EXPECT_TRUE(std::isinf(wrong.result().gap));
    ASSERT_EQ(wrong.result().faults.size(), 1u);
    EXPECT_NE(wrong.result().faults[0].find("the kernel chooses expert"), std::string::npos) << wrong.result().faults[0];
  }
}

TEST(RouteReplay, RepeatedRowsHaveTheSameRoutes) {
  Plan plan;
  std::vector<ChosenRoutes> wanted = {{{"gate", {0, 1}}}};
  RouteReplay replay(plan.program, wanted, 0.01);
  Choice tie{{1, 1, 1, 1}, {}};
  tie.microBatch = 1, tie.tp = 1;
  EXPECT_EQ(tie.shown(plan, replay, 0), 1);
}

TEST(RouteReplay, AReferenceWithoutTheRouterFails) {
  Plan plan;
  std::vector<ChosenRoutes> wanted = {{{"other", {0, 1, 2, 3}}}};
  RouteReplay replay(plan.program, wanted, 0.01);
  EXPECT_EQ((Choice{{1, 1, 1, 1}, {}}).shown(plan, replay, 2), 2);
  EXPECT_TRUE(std::isinf(replay.result().gap));
  EXPECT_FALSE(replay.result().faults.empty());
  replay.beginStep(1); // that the reference does not have
  EXPECT_EQ((Choice{{1, 1, 1, 1}, {}}).shown(plan, replay, 2), 2);
}

} // namespace
