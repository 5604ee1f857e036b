// Faults between the model's file and the step, which no comparison of ranks with one rank
// can see, are found by the check that is for them.
#include "lib/verify/source/FromFile.h"
#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/source/ExactConstants.h"
#include "lib/verify/reference/Reference.h"
#include "lib/verify/Verify.h"
#include "lib/verify/interpret/CompareUpdates.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "test/support/CommandLine.h"
#include "test/support/Context.h"
#include "test/support/Names.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace mlir;
using namespace llmc;
using graph::Build;

namespace {

// The first op of a kind for which `which` holds, also within repeats.
template <typename OpType>
OpType find(
    ModuleOp module, llvm::function_ref<bool(OpType)> which = [](OpType) { return true; }) {
  OpType found;
  module.walk([&](OpType op) {
    if (!found && which(op))
      found = op;
  });
  return found;
}

template <typename OpType> bool isBackward(OpType op) { return op->hasAttr("graph.backward"); }

// Multiplies a value of the backward pass, for all who read it.
bool scale(Value value, double factor) {
  if (!value)
    return false;
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  Value number = Build(builder, value.getLoc()).constant(factor, graph::elementOf(value));
  Value product = Build(builder, value.getLoc()).mul(value, number);
  for (Operation *op : {number.getDefiningOp(), product.getDefiningOp()})
    op->setAttr("graph.backward", builder.getUnitAttr());
  value.replaceAllUsesExcept(product, product.getDefiningOp());
  return true;
}

bool scaleAttention(ModuleOp module, double factor) {
  auto attention = find<graph::AttentionOp>(module);
  if (!attention)
    return false;
  double scale = attention.getScale().convertToDouble();
  attention.setScaleAttr(Builder(module.getContext()).getF64FloatAttr(scale * factor));
  return true;
}

bool scaleActivation(ModuleOp module) {
  if (auto gelu = find<graph::GeluGradOp>(module))
    return scale(gelu.getResult(), 1.05);
  auto gate = find<graph::MulOp>(module, [](graph::MulOp op) {
    return isBackward(op) && op->getParentOfType<graph::RepeatOp>();
  });
  return gate && scale(gate.getResult(), 1.05);
}

// Drops from the backward pass of a layer the addition of the two cotangents of a residual.
bool dropResidual(ModuleOp module) {
  auto add = find<graph::AddOp>(module, [](graph::AddOp op) {
    auto repeat = op->getParentOfType<graph::RepeatOp>();
    return repeat && isBackward(op) && op->getOperand(0) == repeat.getCarriedArgs()[0];
  });
  if (!add)
    return false;
  add.getResult().replaceAllUsesWith(add->getOperand(1));
  add.erase();
  return true;
}

// The two uses of a table, as the embedding and as the head, each have a gradient.
bool dropTied(ModuleOp module) {
  auto scatter = find<graph::ScatterAddOp>(module);
  if (!scatter)
    return false;
  for (Operation *user : scatter->getUsers())
    if (auto add = dyn_cast<graph::AddOp>(user); add && !isa<BlockArgument>(add->getOperand(0))) {
      add.getResult().replaceAllUsesWith(scatter.getResult());
      add.erase();
      return true;
    }
  return false;
}

bool shiftLabels(ModuleOp module) {
  auto micro = module.lookupSymbol<func::FuncOp>("micro");
  for (BlockArgument argument : micro.getArguments()) {
    auto name = micro.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "graph.input");
    if (!name || name.getValue() != "labels")
      continue;
    OpBuilder builder = OpBuilder::atBlockBegin(&micro.front());
    Build b(builder, argument.getLoc());
    int64_t last = graph::shapeOf(argument).back();
    Value rest = b.slice(argument, 1, 1, last), first = b.slice(argument, 1, 0, 1);
    Value shifted = b.concat({rest, first}, 1);
    argument.replaceUsesWithIf(shifted, [&](OpOperand &use) {
      return use.getOwner() != rest.getDefiningOp() && use.getOwner() != first.getDefiningOp();
    });
    return true;
  }
  return false;
}

template <typename Edit> bool editAdamW(ModuleOp module, Edit edit) {
  bool done = false;
  module.walk([&](graph::AdamWOp op) { done |= edit(op); });
  return done;
}

bool decayAll(graph::AdamWOp op) {
  bool differs = !op.getDecay();
  op.setDecay(true);
  return differs;
}

bool decayNone(graph::AdamWOp op) {
  bool differs = op.getDecay();
  op.setDecay(false);
  return differs;
}

bool swapCorrections(graph::AdamWOp op) {
  Value first = op.getC1(), second = op.getC2();
  op.getC1Mutable().assign(second);
  op.getC2Mutable().assign(first);
  return true;
}

// p - lr * (decay p + (m / c1) / sqrt(v / c2 + eps)).
bool moveEpsilon(graph::AdamWOp op) {
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  Build b(builder, op.getLoc());
  Value inside = b.add(b.div(op.getNewV(), op.getC2()), op.getEps());
  Value root = graph::SqrtOp::create(builder, b.loc, inside);
  Value step = b.div(b.div(op.getNewM(), op.getC1()), root);
  if (op.getDecay())
    step = b.add(step, b.mul(op.getParam(), op.getWeightDecay()));
  Value moved = b.sub(op.getParam(), b.mul(step, op.getLr()));
  op.getNewParam().replaceAllUsesWith(moved);
  return true;
}

// Clips each tensor by its own norm: the others are left out of the sum of squares.
bool dropSquares(ModuleOp module) {
  auto reduce = find<graph::ReduceOp>(
      module, [](graph::ReduceOp op) { return op.getKind() == graph::ReduceKind::sum_squares; });
  if (!reduce)
    return false;
  for (Operation *user : reduce->getUsers())
    if (auto add = dyn_cast<graph::AddOp>(user)) {
      add.getResult().replaceAllUsesWith(
          add->getOperand(0) == reduce.getResult() ? add->getOperand(1) : add->getOperand(0));
      return true;
    }
  return false;
}

struct Fault {
  const char *what;
  Phase phase;
  const char *check;                   // that finds it
  std::function<bool(ModuleOp)> plant; // whether there was a place for it
  Optimizer optimizer = Optimizer::AdamW;
};

const Fault faults[] = {
    {"attention's scale 5 % too large", Phase::Raise, "fp64:raise:outputs",
     [](ModuleOp m) { return scaleAttention(m, 1.05); }},
    {"attention's scale 1e-6 too large", Phase::Raise, "fp64:raise:outputs",
     [](ModuleOp m) { return scaleAttention(m, 1 + 1e-6); }},
    {"an activation's gradient 5 % too large", Phase::Train, "fp64:train:gradients",
     scaleActivation},
    {"a residual branch without its gradient", Phase::Train, "fp64:train:gradients", dropResidual},
    {"the gradient of one use of a tied table", Phase::Train, "fp64:train:gradients", dropTied},
    {"labels of the next position", Phase::Train, "fp64:train:loss", shiftLabels},
    {"decay of every parameter", Phase::Train, "fp64:update:adamw:weights",
     [](ModuleOp m) { return editAdamW(m, decayAll); }},
    {"decay of no parameter", Phase::Train, "fp64:update:adamw:weights",
     [](ModuleOp m) { return editAdamW(m, decayNone); }},
    {"bias corrections of each other's moment", Phase::Train, "fp64:update:adamw:weights",
     [](ModuleOp m) { return editAdamW(m, swapCorrections); }},
    {"eps inside the root", Phase::Train, "fp64:update:adamw:weights",
     [](ModuleOp m) { return editAdamW(m, moveEpsilon); }},
    {"a tensor left out of the norm", Phase::Train, "fp64:update:adamw:norm", dropSquares},
    {"a tensor left out of the norm of SGD", Phase::Train, "fp64:update:sgd:weights", dropSquares,
     Optimizer::Sgd},
};

CompileOptions optionsFor(const std::string &model) {
  CompileOptions options;
  options.model = model;
  options.sequence = 8;
  options.globalBatch = 2;
  return options;
}

FailureOr<verify::Report> check(MLIRContext &context, const CompileOptions &options) {
  verify::Report report;
  auto reference = verify::makeReference(context, options, /*seed=*/1, /*withPlan=*/false);
  if (failed(reference))
    return failure();
  verify::checkFromFile(*reference, report);
  verify::checkUpdate(*reference, report);
  return report;
}

bool finds(const verify::Report &report, const std::string &name) {
  return llvm::any_of(report.checks,
                      [&](const verify::Check &c) { return c.name == name && !c.passed; });
}

constexpr double kHalfUnit = 1.001 * 0x1p-24;

// Checks the number that an exporter meant against the float32 that it wrote.
TEST(FromFile, ConstantsAreAsMeant) {
  const double meant[] = {3,
                          1 / 3.0,
                          std::sqrt(0.5),
                          std::sqrt(2.0),
                          1 / std::sqrt(80.0),
                          1e-5,
                          0.044715,
                          -1e-12,
                          std::pow(64, -0.25),
                          std::sqrt(2 / M_PI),
                          1.702,
                          -10000.0,
                          0.1,
                          1 / 768.0,
                          50.25};
  for (double exact : meant)
    EXPECT_TRUE(std::abs(verify::exactValue(static_cast<float>(exact), kHalfUnit) / exact - 1) <
                1e-15)
        << exact << " is what was meant";
  double wrong = 1.00001 / std::sqrt(80.0);
  double read = verify::exactValue(static_cast<float>(wrong), kHalfUnit);
  EXPECT_TRUE(std::abs(read - wrong) < 1e-7 * wrong) << "a wrong scale stays wrong";
  std::mt19937_64 random(1);
  double farthest = 0;
  for (int i = 0; i < 20000; ++i) {
    auto size = static_cast<float>(std::exp(std::uniform_real_distribution<>(-30, 30)(random)));
    farthest = std::max(farthest, std::abs(verify::exactValue(size, kHalfUnit) / size - 1));
  }
  EXPECT_TRUE(farthest > 0 && farthest <= kHalfUnit) << "no number moves by more than half a unit";
  for (double odd : {0.0, HUGE_VAL, -HUGE_VAL, 3.4028234663852886e38})
    EXPECT_TRUE(verify::exactValue(odd, kHalfUnit) == odd) << odd << " is itself";
}

class SoundModel : public testing::TestWithParam<std::string> {};

TEST_P(SoundModel, Passes) {
  test::LoadedContext context;
  auto sound = check(context, optionsFor(GetParam()));
  ASSERT_TRUE(succeeded(sound));
  EXPECT_TRUE(sound->passed() && sound->checks.size() == 6) << "as it is\n" << sound->text();
}

class PlantedFault : public testing::TestWithParam<std::tuple<std::string, Fault>> {};

// Checks that a fault is found. A model may have no place for one of them, because it is untied.
TEST_P(PlantedFault, IsFound) {
  const auto &[model, fault] = GetParam();
  static std::set<std::string> without;
  test::LoadedContext context;
  CompileOptions options = optionsFor(model);
  options.optimizer = fault.optimizer;
  bool done = false;
  options.afterPhase = [&](Phase phase, Operation *module) {
    if (phase == fault.phase)
      done |= fault.plant(cast<ModuleOp>(module));
  };
  auto report = check(context, options);
  if (failed(report) || !done) {
    EXPECT_TRUE(without.insert(model).second) << "all but one are planted";
    GTEST_SKIP() << "no place for it";
  }
  EXPECT_TRUE(finds(*report, fault.check)) << fault.what << "\n" << report->text();
}

INSTANTIATE_TEST_SUITE_P(Models, SoundModel, testing::ValuesIn(test::arguments()));
std::string nameOf(const testing::TestParamInfo<PlantedFault::ParamType> &info) {
  const auto &[model, fault] = info.param;
  std::filesystem::path folder = std::filesystem::path(model).parent_path();
  return test::testName(folder.filename().string() + " " + fault.what);
}

INSTANTIATE_TEST_SUITE_P(Models, PlantedFault,
                         testing::Combine(testing::ValuesIn(test::arguments()),
                                          testing::ValuesIn(faults)),
                         nameOf);

// Checks what a user meets: a verification by default, on many ranks.
TEST(FromFile, APlainVerificationSaysWhere) {
  test::LoadedContext context;
  verify::VerifyOptions options;
  options.compile = optionsFor(test::arguments().at(0));
  options.compile.tp = 2;
  options.compile.afterPhase = [&](Phase phase, Operation *module) {
    if (phase == Phase::Raise)
      scaleAttention(cast<ModuleOp>(module), 1.05);
  };
  auto report = verify::verifyModel(context, options);
  ASSERT_TRUE(succeeded(report));
  EXPECT_TRUE(finds(*report, "fp64:raise:outputs") && report->border == "raise")
      << "a plain verification finds it and says where\n"
      << report->text();
}

} // namespace
