#include "test/passes/5-schedule/Executors.h"

#include "lib/planfile/Check.h"
#include "lib/verify/interpret/PlanInterpreter.h"
#include "lib/verify/interpret/Sources.h"
#include "lib/verify/subject/RunPlan.h"
#include "lib/verify/subject/Subject.h"
#include "test/passes/3-shard/Models.h"
#include "test/support/CommandLine.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;

namespace llmc::test {

using graph::Tensor;
using parallel::NamedTensors;

Tensor drawTensor(std::vector<int64_t> shape, std::mt19937 &random) {
  Tensor tensor(std::move(shape));
  for (double &value : tensor.data)
    value = static_cast<float>(random() % 1000) / 500 - 1;
  return tensor;
}

// The largest difference of an element; infinite where tensors are missing or of other shapes.
static double distance(const NamedTensors &got, const NamedTensors &expected) {
  double worst = 0;
  for (const auto &[name, wanted] : expected) {
    auto found = got.find(name);
    if (found == got.end() || found->second.shape != wanted.shape)
      return INFINITY;
    for (int64_t i = 0; i < wanted.size(); ++i) {
      double error = std::abs(found->second.data[i] - wanted.data[i]);
      worst = std::max(worst, std::isnan(error) ? INFINITY : error);
    }
  }
  return worst;
}

// In double, by the meaning of the IR.
static void checkMeaning(ModuleOp module, const verify::Subject &subject, const Run &run,
                         const verify::Trial &trial, const std::string &what) {
  auto isRight = [&](auto &result) {
    return succeeded(result) && result->maxReplicaDifference == 0 &&
           distance(result->outputs, run.outputs) < 1e-12;
  };
  parallel::StepInput input;
  input.microBatches.push_back(run.inputs);
  ModuleOp scheduled = subject.at(Phase::Schedule);
  input.states = verify::statesFromSources(scheduled, run.weights);
  if (subject.borders.count(Phase::Partition)) {
    auto ranks = parallel::evaluateStep(module, input);
    EXPECT_TRUE(isRight(ranks)) << what + ": ranks do not compute it";
  }
  auto plan = verify::interpretPlan(scheduled, trial);
  EXPECT_TRUE(succeeded(plan) && plan->maxReplicaDifference == 0 &&
              distance(plan->results, run.outputs) < 1e-12)
      << what + ": the plan does not compute it";
  for (int i = 0; i < draws().count; ++i) {
    std::mt19937 random(draws().seed + i);
    auto drawn = verify::interpretStep(scheduled, input, random);
    EXPECT_TRUE(isRight(drawn)) << what + ": another order of streams computes something else";
    EXPECT_TRUE(failed(drawn) || distance(drawn->states, input.states) == 0)
        << what + ": the states are not what they were";
  }
}

void checkExecutors(MLIRContext &context, const std::string &text, Phase from, const Run &run,
                   const std::string &what) {
  OwningOpRef<ModuleOp> module = parse(context, text);
  verify::Subject subject;
  subject.options.infer = true;
  static_cast<planfile::MeshSizes &>(subject.options) = run.mesh;
  bool compiled = succeeded(verify::compileFrom(*module, from, Phase::Emit, subject));
  EXPECT_TRUE(compiled) << what + ": does not compile";
  if (!compiled)
    return;
  auto findings = planfile::checkAll(*subject.program);
  EXPECT_TRUE(findings.empty()) << what + "\n" + planfile::formatFindings(findings);

  verify::Trial trial;
  trial.weights = run.weights;
  trial.steps.push_back({run.inputs, {}});
  checkMeaning(*module, subject, run, trial, what);
  auto result = verify::runPlan(*subject.program, *subject.kernels, trial);
  EXPECT_TRUE(bool(result)) << what + ": " + (result ? "" : result.message());
  double error = result ? distance(result->results, run.outputs) : INFINITY;
  EXPECT_TRUE(result && result->maxReplicaDifference == 0 && error < 1e-5)
      << what + ": the plan file is " + std::to_string(error) + " off";
}

} // namespace llmc::test
