// Checks which second plans may run over the arenas of a first one.
#include "PlanBuilder.h"

#include "lib/planfile/Retry.h"

#include <gtest/gtest.h>

using namespace llmc;
using namespace llmc::planfile;

namespace {

StateShardT &lasting(ProgramT &program) {
  for (const auto &state : program.stages[0]->states)
    if (state->role != StateRole::Accumulator)
      return *state;
  throw std::logic_error("the plan has no parameter");
}

// Expects that a plan which differs from the first so is refused with a text; without one that it is not.
void expect(void (*change)(ProgramT &), const std::string &text) {
  ProgramT first = test::makePlan({}), retry = test::makePlan({});
  change(retry);
  support::Status status = checkRetry(first, retry);
  EXPECT_EQ(bool(status), text.empty()) << (status ? text : status.message());
  if (!status) {
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }
}

// Adds a launch that writes routes.
void addRoutes(ProgramT &program, int64_t tokens) {
  LaunchT launch;
  launch.routes = std::make_unique<RoutesT>();
  launch.routes->router = "gate";
  launch.routes->global_shape = {1, tokens, 2};
  auto instruction = std::make_unique<InstructionT>();
  instruction->body.Set(std::move(launch));
  program.stages[0]->procedures[0]->instructions.push_back(std::move(instruction));
}

TEST(Retry, RoutesLieAlike) {
  expect([](ProgramT &retry) { addRoutes(retry, 4); }, "its routers");
  ProgramT first = test::makePlan({}), retry = test::makePlan({});
  addRoutes(first, 4), addRoutes(retry, 4);
  EXPECT_TRUE(bool(checkRetry(first, retry)));
}

TEST(Retry, StatesLieAlike) {
  expect([](ProgramT &) {}, "");
  expect([](ProgramT &retry) { retry.stages[0]->arena_bytes += 1 << 20; }, "");
  expect([](ProgramT &retry) { lasting(retry).buffer->offset += 64; }, "state 0 of stage 0");
  expect([](ProgramT &retry) { lasting(retry).local_shape[0] += 1; }, "state 0 of stage 0");
  expect([](ProgramT &retry) { retry.stages[0]->states.clear(); }, "of stage 0");
  expect([](ProgramT &retry) { retry.mesh->axes[0]->size += 1; }, "its mesh");
  expect([](ProgramT &retry) { retry.micro_batches += 1; }, "the rows of a step");
  expect([](ProgramT &retry) { retry.inputs.pop_back(); }, "its inputs");
}

} // namespace
