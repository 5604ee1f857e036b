#include "lib/verify/Borders.h"

#include "dialects/graph/Evaluate.h"
#include "dialects/parallel/Annotations.h"
#include "lib/verify/Interpret.h"
#include "lib/verify/Place.h"
#include "lib/verify/PlanMachine.h"
#include "lib/verify/Sources.h"
#include "mlir/IR/Verifier.h"
#include "runtime/Random.h"

#include <cmath>

using namespace mlir;

namespace llmc::verify {
namespace {

constexpr double kExact = 1e-10;
// What an exporter wrote as rounded to float (the root of 2 in a GELU, a scale) is
// exact in the op that it is raised to.
constexpr double kRaised = 1e-6;

// Diagnostics as text, for as long as it lives.
class Captured {
public:
  explicit Captured(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          text += diagnostic.str() + "\n";
          return success();
        }) {}
  std::string text;

private:
  ScopedDiagnosticHandler handler;
};

//===-- raise, train --------------------------------------------------------===//

// Result 0 of @forward for the rows of the first micro-batch.
FailureOr<Tensor> logitsOf(ModuleOp module, const NamedTensors &weights, const StepData &data) {
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.getNumResults() == 0)
    return module.emitError("has no @forward with a result");
  NamedTensors states = statesFromSources(module, weights);
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    std::vector<int64_t> shape = cast<RankedTensorType>(forward.getArgumentTypes()[i]).getShape().vec();
    if (auto symbol = forward.getArgAttrOfType<FlatSymbolRefAttr>(i, "graph.state")) {
      arguments.push_back(states[symbol.getValue().str()]);
      continue;
    }
    auto name = forward.getArgAttrOfType<StringAttr>(i, "graph.input");
    auto found = name ? data.inputs.find(name.str()) : data.inputs.end();
    Tensor part(shape);
    if (found == data.inputs.end() || found->second.size() < part.size())
      return forward.emitError("argument ") << i << " is bound to no input of the step";
    std::copy_n(found->second.data.begin(), part.size(), part.data.begin());
    arguments.push_back(std::move(part));
  }
  auto results = graph::evaluate(forward, arguments);
  if (failed(results))
    return failure();
  return results->front();
}

// Mean over the labels of one micro-batch that are not ignored.
double crossEntropy(const Tensor &logits, const Tensor &labels) {
  int64_t words = logits.shape.back(), positions = logits.size() / words;
  double total = 0;
  int64_t counted = 0;
  for (int64_t i = 0; i < positions; ++i) {
    auto label = static_cast<int64_t>(labels.data[i]);
    if (label < 0)
      continue;
    const double *row = &logits.data[i * words];
    double most = *std::max_element(row, row + words), sum = 0;
    for (int64_t v = 0; v < words; ++v)
      sum += std::exp(row[v] - most);
    total += std::log(sum) + most - row[label];
    ++counted;
  }
  return total / double(std::max<int64_t>(counted, 1));
}

// Of an inference: all outputs.
bool checkRaisedOutputs(const Subject &subject, const Reference &reference, Report &report) {
  Captured captured(subject.at(Phase::Raise).getContext());
  auto expected = interpret(reference.one.at(Phase::Import), reference.trial);
  auto got = interpret(subject.at(Phase::Raise), reference.trial);
  if (failed(expected) || failed(got))
    return report.add("fp64:raise:run", "@forward", 1, 0, captured.text);
  TensorError error = resultError(got->results, expected->results);
  return report.add("fp64:raise:outputs", error.name, error.value, kRaised);
}

bool checkRaise(const Subject &subject, const Reference &reference, Report &report) {
  const StepData &data = reference.trial.steps.front();
  Captured captured(subject.at(Phase::Raise).getContext());
  auto expected = logitsOf(reference.one.at(Phase::Import), reference.trial.weights, data);
  auto got = logitsOf(subject.at(Phase::Raise), reference.trial.weights, data);
  if (failed(expected) || failed(got))
    return report.add("fp64:raise:run", "@forward", 1, 0, captured.text);
  TensorError error = vectorError({{"logits", *got}}, {{"logits", *expected}});
  return report.add("fp64:raise:logits", "first micro-batch", error.value, kRaised);
}

// The first micro-batch alone: its loss from logits, and the gradient along two
// random directions by a difference quotient of fourth order.
bool checkTrain(const Subject &subject, const Reference &reference, Report &report) {
  ModuleOp raised = reference.one.at(Phase::Raise);
  Trial first = reference.trial;
  first.steps.resize(1);
  int64_t rows = raised->getAttrOfType<IntegerAttr>("graph.batch").getInt();
  for (auto &[name, tensor] : first.steps[0].inputs) {
    int64_t row = tensor.size() / tensor.shape[0];
    tensor.shape[0] = rows;
    tensor.data.resize(rows * row);
  }
  Captured captured(raised.getContext());
  auto got = interpret(subject.at(Phase::Train), first);
  bool good = true;
  auto lossAt = [&](const NamedTensors &weights) {
    auto logits = logitsOf(raised, weights, first.steps[0]);
    good &= succeeded(logits);
    return failed(logits) ? NAN : crossEntropy(*logits, first.steps[0].inputs["labels"]);
  };
  double loss = lossAt(first.weights);
  if (failed(got) || !good)
    return report.add("fp64:train:run", "@micro", 1, 0, captured.text);
  good &= report.add("fp64:train:from-logits", "loss of one micro-batch",
                     relativeError(got->losses[0], loss), kExact);
  for (uint64_t direction = 1; direction <= 2; ++direction) {
    double slope = 0, norm = 0;
    auto moved = [&](double step) {
      NamedTensors weights = first.weights;
      uint64_t stream = direction * 1000;
      for (auto &[name, tensor] : weights) {
        ++stream;
        for (int64_t i = 0; i < tensor.size(); ++i)
          tensor.data[i] += step * runtime::normal(7, stream, i);
      }
      return lossAt(weights);
    };
    uint64_t stream = direction * 1000;
    for (auto &[name, tensor] : first.weights) {
      ++stream;
      const Tensor &gradient = got->gradients[name];
      for (int64_t i = 0; i < gradient.size(); ++i) {
        slope += gradient.data[i] * runtime::normal(7, stream, i);
        norm += gradient.data[i] * gradient.data[i];
      }
    }
    double h = 2e-4;
    double quotient = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
    good &= report.add("fp64:train:differences", "direction " + std::to_string(direction),
                       std::abs(slope - quotient) / std::sqrt(norm), 1e-6);
  }
  return good;
}

//===-- Whole steps ---------------------------------------------------------===//

bool compare(const FailureOr<Outcome> &got, const std::string &border, const Reference &reference,
             const std::string &diagnostics, Report &report, Outcome *outcome) {
  if (failed(got))
    return report.add("fp64:" + border + ":run", border, 1, 0, diagnostics);
  if (outcome)
    *outcome = *got;
  bool good = checkExact(*got, reference, border, report);
  if (reference.one.options.infer)
    return good;
  bool adam = reference.one.options.optimizer == Optimizer::AdamW;
  TensorError weights = vectorError(got->weights, reference.exact.weights);
  good &= report.add("fp64:" + border + ":losses", "all steps",
                     lossError(got->losses, reference.exact.losses), adam ? 1e-8 : kExact);
  good &= report.add("fp64:" + border + ":weights", weights.name, weights.value,
                     adam ? 1e-8 : kExact);
  return good;
}

bool checkShard(const Subject &subject, const Reference &reference, Report &report,
                Outcome *outcome) {
  ModuleOp module = subject.at(Phase::Shard);
  Captured captured(module.getContext());
  bool agree = succeeded(parallel::verifyAnnotations(module));
  if (!report.add("fp64:shard:annotations", "rules of the annotations", agree ? 0 : 1, 0,
                  captured.text))
    return false;
  FailureOr<Outcome> global = interpret(module, reference.trial);
  if (!compare(global, "shard", reference, captured.text, report, outcome))
    return false;
  Subject parted;
  parted.options = subject.options;
  if (failed(compileFrom(module, Phase::Shard, Phase::Partition, parted)))
    return report.add("fp64:shard:partitions", "annotations", 1, 0, captured.text);
  FailureOr<Outcome> local = interpret(parted.at(Phase::Partition), reference.trial);
  return compare(local, "shard:ranks", reference, captured.text, report, outcome);
}

} // namespace

bool checkBorder(Phase phase, const Subject &subject, const Reference &reference, Report &report,
                 Outcome *outcome) {
  ModuleOp module = subject.at(phase);
  std::string name(toString(phase));
  if (!module)
    return report.add("fp64:" + name + ":run", name, 1, 0, "this border was not reached");
  bool infer = reference.one.options.infer;
  if (phase == Phase::Raise)
    return infer ? checkRaisedOutputs(subject, reference, report)
                 : checkRaise(subject, reference, report);
  if (phase == Phase::Shard)
    return checkShard(subject, reference, report, outcome);
  Captured captured(module.getContext());
  FailureOr<Outcome> got = phase == Phase::Schedule ? interpretPlan(module, reference.trial)
                                                    : interpret(module, reference.trial);
  bool good = compare(got, name, reference, captured.text, report, outcome);
  return phase == Phase::Train && !infer ? checkTrain(subject, reference, report) && good : good;
}

void findBorder(const Subject &subject, const Reference &reference, Report &report) {
  for (Phase phase : {Phase::Raise, Phase::Train, Phase::Shard, Phase::Partition, Phase::Schedule}) {
    if (!subject.at(phase) || (phase == Phase::Train && subject.options.infer))
      continue;
    Report own;
    Outcome outcome;
    bool good = checkBorder(phase, subject, reference, own, &outcome);
    for (Check &check : own.checks)
      if (llvm::none_of(report.checks, [&](const Check &c) { return c.name == check.name; }))
        report.checks.push_back(check);
    if (good)
      continue;
    report.border = std::string(toString(phase));
    report.place = describePlace(subject.at(phase), outcome, reference);
    return;
  }
  report.border = std::string(toString(Phase::Emit));
}

} // namespace llmc::verify
