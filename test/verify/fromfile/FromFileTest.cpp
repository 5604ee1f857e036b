// Faults between the model's file and the step, which no comparison of ranks with one rank
// can see, are found by the check that is for them.
#include "lib/verify/source/FromFile.h"
#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/verify/source/MeantConstants.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <random>

using namespace mlir;
using namespace llmc;
using graph::Build;

namespace {

int passes = 0, failures = 0;

void expect(bool holds, const std::string &what, const verify::Report &report) {
  std::printf("%s  from file: %s\n", holds ? "ok    " : "FAILED", what.c_str());
  ++(holds ? passes : failures);
  if (!holds)
    std::printf("%s", report.text().c_str());
}

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

// `model` as it is, then with each fault; returns how many had a place in it.
int checkModel(MLIRContext &context, const std::string &model) {
  auto sound = check(context, optionsFor(model));
  if (failed(sound))
    return 0;
  expect(sound->passed() && sound->checks.size() == 6, model + " as it is", *sound);
  int planted = 0;
  for (const Fault &fault : faults) {
    CompileOptions options = optionsFor(model);
    options.optimizer = fault.optimizer;
    bool done = false;
    options.afterPhase = [&](Phase phase, Operation *module) {
      if (phase == fault.phase)
        done |= fault.plant(cast<ModuleOp>(module));
    };
    auto report = check(context, options);
    if (failed(report) || !done)
      continue;
    ++planted;
    expect(finds(*report, fault.check), model + ": " + fault.what, *report);
  }
  return planted;
}

constexpr double kHalfUnit = 1.001 * 0x1p-24;

// Checks the number that an exporter meant against the float32 that it wrote.
void checkMeant() {
  verify::Report none;
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
    expect(std::abs(verify::meantValue(static_cast<float>(exact), kHalfUnit) / exact - 1) < 1e-15,
           std::to_string(exact) + " is what was meant", none);
  double wrong = 1.00001 / std::sqrt(80.0);
  double read = verify::meantValue(static_cast<float>(wrong), kHalfUnit);
  expect(std::abs(read - wrong) < 1e-7 * wrong, "a wrong scale stays wrong", none);
  std::mt19937_64 random(1);
  double farthest = 0;
  for (int i = 0; i < 20000; ++i) {
    auto size = static_cast<float>(std::exp(std::uniform_real_distribution<>(-30, 30)(random)));
    farthest = std::max(farthest, std::abs(verify::meantValue(size, kHalfUnit) / size - 1));
  }
  expect(farthest > 0 && farthest <= kHalfUnit, "no number moves by more than half a unit", none);
  for (double odd : {0.0, HUGE_VAL, -HUGE_VAL, 3.4028234663852886e38})
    expect(verify::meantValue(odd, kHalfUnit) == odd, std::to_string(odd) + " is itself", none);
}

} // namespace

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  checkMeant();
  constexpr int kFaults = std::size(faults);
  for (int i = 1; i < argc; ++i) {
    verify::Report none;
    // A model may be untied.
    expect(checkModel(context, argv[i]) >= kFaults - 1, std::string(argv[i]) + ": all planted",
           none);
  }
  // As a user meets them: by default, on many ranks.
  verify::VerifyOptions options;
  options.compile = optionsFor(argv[1]);
  options.compile.tp = 2;
  options.compile.afterPhase = [&](Phase phase, Operation *module) {
    if (phase == Phase::Raise)
      scaleAttention(cast<ModuleOp>(module), 1.05);
  };
  auto report = verify::verifyModel(context, options);
  expect(succeeded(report) && finds(*report, "fp64:raise:outputs") && report->border == "raise",
         "a plain verification finds it and says where", *report);
  std::printf("%d passed, %d failed\n", passes, failures);
  return failures != 0;
}
