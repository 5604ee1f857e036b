// Faults between the model's file and the step, which no comparison of ranks with one rank
// can see, are found by the check that is for them.
#include "lib/verify/FromFile.h"
#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "lib/pipeline/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdio>
#include <functional>

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

bool scaleAttention(ModuleOp module, double factor) {
  auto attention = find<graph::AttentionOp>(module);
  if (!attention)
    return false;
  double scale = attention.getScale().convertToDouble();
  attention.setScaleAttr(Builder(module.getContext()).getF64FloatAttr(scale * factor));
  return true;
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
  expect(sound->passed() && sound->checks.size() == 4, model + " as it is", *sound);
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

} // namespace

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  constexpr int kFaults = std::size(faults);
  for (int i = 1; i < argc; ++i) {
    verify::Report none;
    expect(checkModel(context, argv[i]) == kFaults, std::string(argv[i]) + ": all planted", none);
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
