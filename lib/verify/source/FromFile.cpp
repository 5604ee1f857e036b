// Compares the raised module with the imported one and the update with the papers' equations.
#include "lib/verify/source/FromFile.h"

#include "dialects/graph/GraphAttrs.h"
#include "lib/verify/subject/DiagnosticCapture.h"
#include "lib/verify/interpret/Forward.h"
#include "lib/verify/source/ExactConstants.h"
#include "lib/verify/interpret/Sources.h"
#include "lib/verify/reference/Limits.h"

using namespace mlir;

namespace llmc::verify {
namespace {

std::string nameOfResult(func::FuncOp func, unsigned i) {
  auto name = func.getResultAttrOfType<StringAttr>(i, graph::kOutput);
  return name ? name.str() : "output " + std::to_string(i);
}

// Returns the float outputs of the first micro-batch, by name.
FailureOr<NamedTensors> outputsOf(ModuleOp module, const Trial &trial) {
  OwningOpRef<ModuleOp> meant = withExactConstants(module);
  func::FuncOp forward = forwardOf(*meant);
  if (!forward)
    return failure();
  NamedTensors states = statesFromSources(*meant, trial.weights);
  auto results = runForward(forward, states, trial.steps.front(), 0);
  if (failed(results))
    return failure();
  NamedTensors outputs;
  for (auto [i, value] : llvm::enumerate(*results))
    if (isa<FloatType>(cast<RankedTensorType>(forward.getResultTypes()[i]).getElementType()))
      outputs[nameOfResult(forward, i)] = std::move(value);
  return outputs;
}

} // namespace

bool checkRaised(ModuleOp raised, const Reference &reference, Report &report) {
  ModuleOp imported = reference.one.at(Phase::Import);
  if (!imported)
    return true;
  DiagnosticCapture captured(raised.getContext());
  auto expected = outputsOf(imported, reference.trial), got = outputsOf(raised, reference.trial);
  if (failed(expected) || failed(got))
    return report.add("fp64:raise:run", "@forward", 1, 0, captured.text);
  TensorError error = resultError(*got, *expected);
  return report.add("fp64:raise:outputs", error.name, error.value, kExact);
}

bool checkUpdate(const Reference &reference, Report &report) {
  if (reference.one.options.infer)
    return true;
  const UpdateErrors &update = reference.update;
  std::string name = "fp64:update:";
  bool adam = reference.one.options.optimizer == Optimizer::AdamW;
  name += adam ? "adamw:" : "sgd:";
  bool good = report.add(name + "weights", update.weights.name, update.weights.value, kExact);
  if (adam)
    good &= report.add(name + "moments", update.moments.name, update.moments.value, kExact);
  good &= report.add(name + "norm", "grad_norm of " + std::to_string(update.steps) + " steps",
                     update.norm, kExact);
  return good;
}

bool checkFromFile(const Reference &reference, Report &report) {
  ModuleOp raised = reference.one.at(Phase::Raise);
  bool good = checkRaised(raised, reference, report);
  return checkGradients(reference, report) && good;
}

} // namespace llmc::verify
