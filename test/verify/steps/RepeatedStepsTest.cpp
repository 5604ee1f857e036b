// A step that repeats its micro-batches is the step with all of them written out, for whoever
// runs it; and the plan's own first step repeats none.
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/Verify.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/interpret/PlanInterpreter.h"
#include "lib/verify/subject/RunPlan.h"
#include "lib/verify/reference/Reference.h"
#include "test/support/CommandLine.h"
#include "test/support/Context.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace llmc;
using verify::Outcome;
using verify::Trial;

namespace {

CompileOptions optionsFor(const std::string &model) {
  CompileOptions options;
  options.model = model;
  options.dp = options.pp = options.tp = 2;
  options.globalBatch = 16;
  options.sequence = 8;
  return options;
}

Trial writtenOut(Trial trial) {
  for (verify::StepData &step : trial.steps)
    step = {verify::allRows(step), step.scalars};
  return trial;
}

double distance(const Outcome &a, const Outcome &b) {
  return std::max({verify::lossError(a.losses, b.losses), verify::outputError(a.outputs, b.outputs),
                   verify::gradientError(a.gradients, b.gradients).value,
                   verify::vectorError(a.weights, b.weights).value});
}

// Counts the different micro-batches of a step.
size_t different(const verify::StepData &step, int64_t microBatches) {
  const verify::Tensor tokens = verify::allRows(step).at("labels");
  int64_t size = tokens.size() / microBatches;
  std::set<std::vector<double>> seen;
  for (int64_t k = 0; k < microBatches; ++k)
    seen.emplace(tokens.data.begin() + k * size, tokens.data.begin() + (k + 1) * size);
  return seen.size();
}

template <typename F> void compareBoth(const char *who, const Trial &trial, double limit, F run) {
  auto few = run(trial), all = run(writtenOut(trial));
  ASSERT_TRUE(few && all) << who << " runs";
  double off = distance(*few, *all);
  EXPECT_TRUE(off <= limit) << who << ": " << off << " apart";
}

void checkRuns(const verify::Subject &ranks, const verify::Subject &one, const Trial &trial) {
  auto inDouble = [](ModuleOp module) {
    return [=](const Trial &of) -> std::optional<Outcome> {
      FailureOr<Outcome> outcome = verify::interpret(module, of);
      return succeeded(outcome) ? std::optional(std::move(*outcome)) : std::nullopt;
    };
  };
  compareBoth("one rank in double", trial, 1e-12, inDouble(one.at(Phase::Train)));
  compareBoth("all ranks in double", trial, 1e-12, inDouble(ranks.at(Phase::Partition)));
  compareBoth("the schedule in double", trial, 0, [&](const Trial &of) -> std::optional<Outcome> {
    FailureOr<Outcome> outcome = verify::interpretPlan(ranks.at(Phase::Schedule), of);
    return succeeded(outcome) ? std::optional(std::move(*outcome)) : std::nullopt;
  });
  compareBoth("kernels", trial, 0, [&](const Trial &of) -> std::optional<Outcome> {
    auto outcome = verify::runPlan(*ranks.program, *ranks.kernels, of);
    return outcome ? std::optional(std::move(*outcome)) : std::nullopt;
  });
}

class RepeatedSteps : public testing::TestWithParam<std::string> {};

TEST_P(RepeatedSteps, EqualStepsWrittenOut) {
  test::LoadedContext context;
  CompileOptions options = optionsFor(GetParam());
  FailureOr<verify::Subject> ranks = verify::compileSubject(context, options);
  FailureOr<verify::Reference> reference = verify::makeReference(context, options, 3);
  ASSERT_TRUE(succeeded(ranks) && succeeded(reference)) << "the model compiles";
  const verify::Subject &one = reference->one;
  int64_t count = options.microBatches();
  EXPECT_TRUE(count == 8) << "8 micro-batches";
  auto few = verify::drawTrial(one, 3, 2, 2);
  ASSERT_TRUE(bool(few)) << "steps are drawn";
  checkRuns(*ranks, one, *few);
  for (auto [atMost, made] : {std::pair(1, 1), {2, 2}, {3, 2}, {7, 4}, {8, 8}, {100, 8}})
    EXPECT_TRUE(different(verify::drawStep(one, 3, 0, atMost), count) == size_t(made))
        << atMost << " different ones are a divisor of 8";
  const auto &steps = verify::trialOfPlan(*reference).steps;
  EXPECT_TRUE(different(steps[0], count) == size_t(count)) << "a plan's first step repeats none";
  EXPECT_TRUE(different(steps[1], count) == size_t(verify::kDifferent)) << "its second does";
}

INSTANTIATE_TEST_SUITE_P(Models, RepeatedSteps, testing::ValuesIn(test::arguments()));

} // namespace
