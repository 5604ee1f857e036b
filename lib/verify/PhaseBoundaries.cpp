// Compares the module at one phase boundary, or at each until the first that fails, with the
// one-rank reference.
#include "lib/verify/PhaseBoundaries.h"

#include "dialects/parallel/Annotations.h"
#include "lib/verify/reference/Limits.h"
#include "lib/verify/subject/DiagnosticCapture.h"
#include "lib/verify/source/FromFile.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/FaultLocation.h"
#include "lib/verify/interpret/PlanInterpreter.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace llmc::verify {
namespace {

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
  DiagnosticCapture captured(module.getContext());
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

bool checkPhaseBoundary(Phase phase, const Subject &subject, const Reference &reference,
                        Report &report, Outcome *outcome) {
  ModuleOp module = subject.at(phase);
  std::string name(toString(phase));
  if (!module)
    return report.add("fp64:" + name + ":run", name, 1, 0, "this phase boundary was not reached");
  bool infer = reference.one.options.infer;
  if (phase == Phase::Raise)
    return checkRaised(module, reference, report);
  if (phase == Phase::Shard)
    return checkShard(subject, reference, report, outcome);
  DiagnosticCapture captured(module.getContext());
  FailureOr<Outcome> got = phase == Phase::Schedule ? interpretPlan(module, reference.trial)
                                                    : interpret(module, reference.trial);
  if (phase == Phase::Train) // The checks against the file have the plain name.
    name += ":one-rank";
  bool good = compare(got, name, reference, captured.text, report, outcome);
  if (phase != Phase::Train || infer)
    return good;
  good &= checkGradients(reference, report);
  return checkUpdate(reference, report) && good;
}

void locateFault(const Subject &subject, const Reference &reference, Report &report) {
  for (Phase phase : {Phase::Raise, Phase::Train, Phase::Shard, Phase::Partition, Phase::Schedule}) {
    if (!subject.at(phase) || (phase == Phase::Train && subject.options.infer))
      continue;
    Report own;
    Outcome outcome;
    bool good = checkPhaseBoundary(phase, subject, reference, own, &outcome);
    for (Check &check : own.checks)
      if (llvm::none_of(report.checks, [&](const Check &c) { return c.name == check.name; }))
        report.checks.push_back(check);
    if (good)
      continue;
    report.border = std::string(toString(phase));
    report.place = describeFaultLocation(subject.at(phase), outcome, reference);
    return;
  }
  // Blame the emitted program, which is all that is left, unless only checks failed that say
  // themselves what is wrong.
  if (llvm::any_of(report.checks, [](const Check &check) {
        return !check.passed && check.name.rfind("oracle:", 0) != 0 &&
               check.name.rfind("types:", 0) != 0 && check.name != "updates:skip";
      }))
    report.border = std::string(toString(Phase::Emit));
}

} // namespace llmc::verify
