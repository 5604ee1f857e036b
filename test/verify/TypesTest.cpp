// Faults of element types: each rule of the census finds those that it is about, a step with rounded
// numbers finds states that lose bits, and an update that does not skip is found.
#include "lib/verify/types/TypeChecks.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "lib/verify/mutation/IrMutants.h"
#include "lib/verify/types/Census.h"
#include "test/support/Context.h"

#include <gtest/gtest.h>

#include <set>

using namespace llmc;
using namespace llmc::verify;
using mlir::func::FuncOp;

namespace {

struct Compiled {
  Compiled() {
    CompileOptions options;
    options.model = LLMC_TEST_DATA "/gpt2/config.json";
    options.pp = options.tp = 2;
    options.sequence = 4;
    options.globalBatch = 2;
    options.precision = Precision::Bf16;
    options.skipNonfinite = true;
    auto made = makeReference(context, options, 1, /*withPlan=*/false);
    auto all = compileSubject(context, options, Phase::Partition);
    if (failed(made) || failed(all))
      throw std::runtime_error("gpt2 does not compile");
    reference = std::move(*made);
    subject = std::move(*all);
    reference.trial.steps.resize(1);
  }

  // Returns the module with the first mutant whose id has both texts.
  mlir::OwningOpRef<mlir::ModuleOp> broken(const std::string &text, const std::string &change) {
    mlir::OwningOpRef<mlir::ModuleOp> module = subject.at(Phase::Partition).clone();
    for (const IrMutant &mutant : listIrMutants(*module, Phase::Partition))
      if (mutant.id().find(text) != std::string::npos &&
          mutant.id().find(change) != std::string::npos) {
        EXPECT_TRUE(apply(mutant, *module)) << mutant.id();
        return module;
      }
    ADD_FAILURE() << "no mutant " << text << " " << change;
    return module;
  }

  test::LoadedContext context;
  Reference reference;
  Subject subject;
};

Compiled &compiled() {
  static Compiled compiled;
  return compiled;
}

std::set<std::string> rulesOf(mlir::ModuleOp module) {
  std::set<std::string> rules;
  for (const TypeFault &fault : censusOfTypes(module, compiled().subject.options))
    rules.insert(fault.rule);
  return rules;
}

std::set<std::string> failing(const Report &report) {
  std::set<std::string> names;
  for (const Check &check : report.checks)
    if (!check.passed)
      names.insert(check.name);
  return names;
}

struct Planted {
  const char *where, *change, *rule;
};

class CensusFinds : public testing::TestWithParam<Planted> {};

TEST_P(CensusFinds, Fault) {
  auto [where, change, rule] = GetParam();
  EXPECT_TRUE(rulesOf(*compiled().broken(where, change)).count(rule)) << where << ": " << change;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, CensusFinds,
    testing::Values(Planted{":graph.state#0", "in f32", "states"},
                    Planted{":graph.state#1", "in bf16", "states"},
                    Planted{":graph.state#2", "in bf16", "states"},
                    Planted{":graph.state#3", "in bf16", "states"},
                    Planted{"forward_0:graph.matmul#0", "in f32", "products"},
                    Planted{"backward_1:graph.matmul#1", "in bf16", "products"},
                    Planted{"forward_0:graph.layer_norm#0", "result 1 through bf16", "casts"},
                    Planted{"forward_1:graph.exp#0", "in bf16", "casts"},
                    Planted{"backward_0:graph.reduce", "in bf16", "sums"},
                    Planted{"forward_0:parallel.reduce_scatter", "in f32", "moved"},
                    Planted{"update_0:graph.div#1", "in bf16", "casts"}));

TEST(Census, SaysNothingOfASoundPlan) {
  mlir::ModuleOp module = compiled().subject.at(Phase::Partition);
  for (const TypeFault &fault : censusOfTypes(module, compiled().subject.options))
    ADD_FAILURE() << fault.rule << ": " << fault.text;
}

// Keeps the first low value between forward and backward of a stage in f32.
void keepInFull(mlir::ModuleOp module) {
  auto forward = module.lookupSymbol<FuncOp>("forward_0");
  mlir::Operation *end = forward.front().getTerminator();
  mlir::OpBuilder builder(end);
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (mlir::Value value = end->getOperand(i);
        forward.getResultAttr(i, parallel::kResidual) && graph::elementOf(value).isBF16()) {
      end->setOperand(i, graph::Build(builder, value.getLoc()).cast(value, builder.getF32Type()));
      return;
    }
}

TEST(Census, FindsActivationsThatAreKeptInFull) {
  mlir::OwningOpRef<mlir::ModuleOp> module = compiled().subject.at(Phase::Partition).clone();
  keepInFull(*module);
  EXPECT_TRUE(rulesOf(*module).count("kept"));
}

TEST(Census, FindsLowArithmeticInTheUpdate) {
  mlir::OwningOpRef<mlir::ModuleOp> module = compiled().subject.at(Phase::Partition).clone();
  auto update = module->lookupSymbol<FuncOp>("update_0");
  mlir::Operation *end = update.front().getTerminator();
  mlir::OpBuilder builder(end);
  mlir::Value stored = end->getOperand(0);
  graph::Build b(builder, end->getLoc());
  end->setOperand(0, b.add(stored, stored));
  EXPECT_TRUE(rulesOf(*module).count("update"));
}

//===-- Numbers ---------------------------------------------------------------===//

class RoundedStepFinds : public testing::TestWithParam<Planted> {};

TEST_P(RoundedStepFinds, Fault) {
  auto [where, change, check] = GetParam();
  mlir::OwningOpRef<mlir::ModuleOp> module = compiled().broken(where, change);
  Report report;
  const Trial &trial = compiled().reference.trial;
  EXPECT_FALSE(checkTypes(*module, compiled().subject.options, trial, report));
  EXPECT_TRUE(failing(report).count(check)) << where << ": " << change << "\n" << report.text();
}

INSTANTIATE_TEST_SUITE_P(
    Faults, RoundedStepFinds,
    testing::Values(Planted{"update_0:graph.adamw#1", "result 0 through bf16", "types:rounded:masters"},
                    Planted{"update_0:graph.adamw#0", "result 0 through bf16", "types:rounded:replicas"},
                    Planted{"update_1:graph.adamw#2", "result 1 through bf16", "types:rounded:moments"},
                    Planted{"update_0:graph.adamw#1", "result 2 through bf16", "types:rounded:moments"}));

TEST(SkippedUpdate, IsFoundIfItIsNone) {
  const Trial &trial = compiled().reference.trial;
  Report sound, faulty;
  EXPECT_TRUE(checkSkip(compiled().subject.at(Phase::Partition), trial, sound)) << sound.text();
  EXPECT_EQ(sound.checks.size(), 1u);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      compiled().broken("update_1:graph.select#2", "operand 1 in place of result 0");
  EXPECT_FALSE(checkSkip(*module, trial, faulty));
}

} // namespace
