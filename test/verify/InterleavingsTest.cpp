#include "lib/verify/Interleavings.h"

#include "test/runtime/PlanBuilder.h"

using namespace llmc;
using namespace llmc::test;
using runtime::Kernels;

namespace {

constexpr uint64_t kSum = 0, kValue = 16, kReduced = 32;

void setOnes(void *const *b, const int64_t *, int64_t, int64_t) {
  for (int i = 0; i < 4; ++i)
    static_cast<float *>(b[0])[i] = 1;
}
void addTo(void *const *b, const int64_t *, int64_t, int64_t) {
  for (int i = 0; i < 4; ++i)
    static_cast<float *>(b[1])[i] += static_cast<float *>(b[0])[i];
}

// A value made on stream 0, reduced on stream 1, added to a state on stream 0.
std::unique_ptr<ProgramT> makePlan() {
  auto program = makeProgram({2, 1}, 1, 64, 2);
  auto state = std::make_unique<StateShardT>();
  state->name = "sum";
  state->role = StateRole::Accumulator;
  state->global_shape = state->local_shape = {4};
  state->dims.push_back(std::make_unique<DimShardingT>());
  state->buffer = ref(kSum, 16);
  program->stages[0]->states.push_back(std::move(state));
  LaunchT ones = launch(*program, "setOnes", refs(ref(kValue, 16)));
  ones.operands[0]->access = Access::Write;
  LaunchT sum = launch(*program, "addTo", refs(ref(kReduced, 16), ref(kSum, 16)));
  sum.operands[0]->access = Access::Read;
  add(*program, 0, std::move(ones));
  add(*program, 0, record(0));
  add(*program, 0, waitFor(0), 1);
  add(*program, 0, collective(CollectiveKind::AllReduce, {0}, 4, ref(kValue, 16), ref(kReduced, 16)),
      1);
  add(*program, 0, record(1), 1);
  add(*program, 0, waitFor(1));
  add(*program, 0, std::move(sum));
  return program;
}

std::vector<verify::Check> check(const ProgramT &program, size_t steps = 5) {
  Kernels kernels({setOnes, addTo});
  verify::Trial trial;
  trial.steps.resize(steps);
  verify::Report report;
  verify::checkInterleavings(program, kernels, trial, 20, 7, report);
  return report.checks;
}

TEST(Interleavings, AGoodPlanPasses) {
  auto checks = check(*makePlan());
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].name, "interleave:bits");
  EXPECT_EQ(checks[1].name, "interleave:poison");
  for (const verify::Check &one : checks) {
    EXPECT_TRUE(one.passed) << one.note;
    EXPECT_EQ(one.subject, "20 orders from seed 7");
  }
}

TEST(Interleavings, ALostWaitIsPoison) {
  auto program = makePlan();
  auto &list = program->stages[0]->procedures[0]->instructions;
  list.erase(list.begin() + 5);
  auto checks = check(*program);
  EXPECT_TRUE(checks[0].passed) << checks[0].note;
  EXPECT_FALSE(checks[1].passed);
  EXPECT_GT(checks[1].value, 0);
  EXPECT_NE(checks[1].note.find("a wait is missing"), std::string::npos) << checks[1].note;
}

// A kernel reads what its plan does not mention: it gets poison, which stays in the
// state and is read as such in the next step.
TEST(Interleavings, AnUndeclaredReadIsFound) {
  auto program = makePlan();
  program->stages[0]->procedures[0]->instructions[6]->body.AsLaunch()->operands[0]->access =
      Access::None;
  auto checks = check(*program, 1);
  EXPECT_EQ(checks[0].value, 20);
  EXPECT_NE(checks[0].note.find("seed 7: other bits after step 1 in accumulator 'sum' on rank 0"),
            std::string::npos)
      << checks[0].note;
  EXPECT_TRUE(checks[1].passed) << checks[1].note;
  checks = check(*program, 2);
  EXPECT_EQ(checks[1].value, 20);
  EXPECT_NE(checks[1].note.find("step 2: poison is read: operand 1"), std::string::npos)
      << checks[1].note;
}

// Two groups, entered in different order by the two stages.
TEST(Interleavings, APlanThatBlocksFails) {
  auto program = makeProgram({2, 2}, 1, 64);
  std::vector<std::vector<uint32_t>> order[2] = {{{1}, {0, 1}}, {{0, 1}, {1}}};
  for (uint32_t s : {0u, 1u})
    for (const auto &axes : order[s])
      add(*program, s, collective(CollectiveKind::AllReduce, axes, 2, ref(axes.size() * 8, 8),
                                  ref(axes.size() * 8, 8)));
  verify::Trial trial;
  trial.steps.resize(1);
  verify::Report report;
  verify::checkInterleavings(*program, Kernels(std::vector<runtime::KernelFunction>{}), trial, 20, 7,
                             report);
  ASSERT_EQ(report.checks.size(), 1u);
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.checks[0].note.find("in order: step 1: all ranks are blocked"), std::string::npos)
      << report.checks[0].note;
}

} // namespace
