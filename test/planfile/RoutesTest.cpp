// Checks what checkBounds() accepts of launches that write routes, and where their choices lie in a step.
#include "PlanBuilder.h"

#include "lib/planfile/Inputs.h"
#include "lib/planfile/Routes.h"

#include <functional>
#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::planfile;

namespace {

// Makes routes of 2 of 8 experts for 3 rows of 4 tokens, by scores and a bias.
LaunchT chooses() {
  LaunchT launch;
  for (auto [offset, size] : {std::pair(0, 3 * 4 * 8 * 4), {1024, 8 * 4}, {2048, 3 * 4 * 2 * 8}}) {
    launch.operands.push_back(std::make_unique<OperandT>());
    launch.operands.back()->buffer = test::bytesAt(offset, size);
    launch.operands.back()->access = Access::Read;
  }
  launch.operands.back()->access = Access::Write;
  launch.rows = 12;
  launch.routes = std::make_unique<RoutesT>();
  launch.routes->router = "gate";
  launch.routes->global_shape = launch.routes->local_shape = {3, 4, 2};
  launch.routes->experts = 8;
  return launch;
}

ProgramT planOf(LaunchT launch) {
  ProgramT program = test::makeInferencePlan(1);
  program.stages[0]->arena_bytes += 1 << 16;
  auto instruction = std::make_unique<InstructionT>();
  instruction->body.Set(std::move(launch));
  auto &list = program.stages[0]->procedures[0]->instructions;
  list.insert(list.begin(), std::move(instruction));
  return program;
}

std::string faultOf(const std::function<void(LaunchT &)> &change) {
  LaunchT launch = chooses();
  change(launch);
  support::Status status = checkBounds(planOf(std::move(launch)));
  return status ? "" : status.message();
}

void refuses(const std::function<void(LaunchT &)> &change, const std::string &text) {
  std::string fault = faultOf(change);
  EXPECT_NE(fault.find(text), std::string::npos) << "expected '" << text << "', got '" << fault << "'";
}

TEST(Routes, BoundsAcceptAndSurviveTheFile) {
  EXPECT_EQ(faultOf([](LaunchT &) {}), "");
  EXPECT_EQ(faultOf([](LaunchT &l) { l.operands.erase(l.operands.begin() + 1); }), "");
  EXPECT_EQ(faultOf([](LaunchT &l) { l.routes->groups = 4, l.routes->kept_groups = 1, l.routes->group_terms = 2; }), "");
  ProgramT program = planOf(chooses());
  program.version = kPlanVersion;
  auto read = readProgram(writeProgram(program));
  ASSERT_TRUE(bool(read)) << read.message();
  const auto &routes = (*read)->stages[0]->procedures[0]->instructions[0]->body.AsLaunch()->routes;
  ASSERT_TRUE(bool(routes));
  EXPECT_EQ(routes->router, "gate");
  EXPECT_EQ(routes->experts, 8);
  EXPECT_EQ(finalRoutes(**read).size(), 1u);
}

TEST(Routes, BoundsRefuse) {
  refuses([](LaunchT &l) { l.routes->router.clear(); }, "no name");
  refuses([](LaunchT &l) { l.routes->kind = RoutesKind(7); }, "unknown kind");
  refuses([](LaunchT &l) { l.routes->local_shape = {3, 4}; }, "bad shapes");
  refuses([](LaunchT &l) { l.routes->local_shape = {3, 4, 0}; }, "bad shapes");
  refuses([](LaunchT &l) { l.routes->local_shape = l.routes->global_shape = {}; }, "bad shapes");
  refuses([](LaunchT &l) { l.routes->global_shape = {3, 4, 4}; }, "bad shapes");
  refuses([](LaunchT &l) { l.routes->global_shape = {9, 4, 2}; }, "do not cover");
  refuses([](LaunchT &l) {
    l.routes->dims.push_back(std::make_unique<DimShardingT>());
    l.routes->dims.back()->axes = {77};
  }, "bad axes");
  refuses([](LaunchT &l) { l.operands.erase(l.operands.begin(), l.operands.begin() + 2); }, "1 operands");
  refuses([](LaunchT &l) { l.routes->kind = RoutesKind::Limited; }, "3 operands");
  refuses([](LaunchT &l) { l.operands.back()->access = Access::Read; }, "is not written");
  refuses([](LaunchT &l) { l.operands.back()->buffer->size -= 8; }, "routes");
  refuses([](LaunchT &l) { l.operands.back()->buffer->offset += 4; }, "routes");
  refuses([](LaunchT &l) { l.operands[0]->buffer->size -= 4; }, "scores");
  refuses([](LaunchT &l) { l.operands[1]->buffer->size -= 4; }, "biases");
  refuses([](LaunchT &l) { l.operands[1]->access = Access::Write; }, "not read");
  refuses([](LaunchT &l) { l.routes->experts = int64_t(1) << 40; }, "experts");
  refuses([](LaunchT &l) { l.routes->experts = 0; }, "chooses 2 of 0 experts");
  refuses([](LaunchT &l) { l.routes->groups = 3; }, "in 1 of 3 groups");
  refuses([](LaunchT &l) { l.routes->groups = 4, l.routes->kept_groups = 5; }, "in 5 of 4 groups");
  refuses([](LaunchT &l) { l.routes->groups = 4, l.routes->group_terms = 3; }, "by 3 scores");
  refuses([](LaunchT &l) { l.routes->groups = 8; }, "chooses 2");
}

TEST(Routes, LaunchesOfARouterAgree) {
  ProgramT program = planOf(chooses());
  LaunchT other = chooses();
  other.routes->global_shape = other.routes->local_shape = {1, 4, 2};
  auto instruction = std::make_unique<InstructionT>();
  instruction->body.Set(std::move(other));
  program.stages[0]->procedures[0]->instructions.push_back(std::move(instruction));
  support::Status status = checkBounds(program);
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.message().find("other shapes or experts than elsewhere"), std::string::npos) << status.message();
}

// Makes a program that trains on 2 micro-batches of 3 rows of 4 tokens.
ProgramT training() {
  ProgramT program;
  program.mesh = std::make_unique<MeshT>();
  program.micro_batches = 2;
  program.global_batch = 6;
  return program;
}

TEST(Routes, LieInTheRowsOfAStep) {
  ProgramT program = training();
  RoutesT routes = *chooses().routes;
  RoutesLayout layout(program, routes);
  EXPECT_EQ(layout.shape(), (std::array<int64_t, 3>{6, 4, 2}));
  EXPECT_EQ(layout.elementOf(0, 0), 0);
  EXPECT_EQ(layout.elementOf(2 * 5, 0), 2 * 5);
  EXPECT_EQ(layout.elementOf(2 * 5, 1), 2 * (12 + 5));
  routes.global_shape = {12, 2}; // rows and tokens in one dim
  EXPECT_EQ(RoutesLayout(program, routes).shape(), layout.shape());
  routes.global_shape = {11, 2};
  EXPECT_FALSE(RoutesLayout::fits(program, routes));
}

TEST(Routes, TokensComeBackIntoTheUsersOrder) {
  ProgramT program = training();
  auto input = std::make_unique<InputBindingT>();
  input->local_shape = {3, 4};
  input->permuted_dim = 1;
  input->block_order = {0, 3, 1, 2};
  program.inputs.push_back(std::move(input));
  RoutesLayout layout(program, *chooses().routes);
  for (int64_t place = 0; place < 4; ++place)
    EXPECT_EQ(layout.elementOf(2 * (4 + place), 1), 2 * (12 + 4 + program.inputs[0]->block_order[place]));
}

TEST(Routes, ALimitComesLast) {
  ProgramT program = planOf(chooses());
  LaunchT limit = chooses();
  limit.operands.erase(limit.operands.begin());
  limit.routes->kind = RoutesKind::Limited;
  auto instruction = std::make_unique<InstructionT>();
  instruction->body.Set(std::move(limit));
  auto &list = program.stages[0]->procedures[0]->instructions;
  list.insert(list.begin(), std::move(instruction));
  EXPECT_EQ(finalRoutes(program).at("gate")->kind, RoutesKind::Limited);
}

} // namespace
