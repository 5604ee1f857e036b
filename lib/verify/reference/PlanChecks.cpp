#include "lib/verify/reference/PlanChecks.h"

#include "lib/planfile/Check.h"
#include "lib/verify/reference/Limits.h"
#include "lib/verify/subject/RunPlan.h"

namespace llmc::verify {

void checkStatic(const planfile::ProgramT &program, Report &report) {
  auto add = [&](const std::string &name, const std::vector<planfile::Finding> &findings) {
    return report.add("static:" + name, "plan", double(findings.size()), 0,
                      planfile::formatFindings(findings));
  };
  std::vector<planfile::Finding> bounds;
  if (support::Status status = planfile::checkBounds(program); !status) {
    bounds.emplace_back().checker = "bounds";
    bounds.back().message = status.message();
  }
  if (!add("bounds", bounds))
    return;
  add("collectives", planfile::checkCollectives(program));
  add("launch-order", planfile::checkLaunchOrder(program));
  add("happens-before", planfile::checkHappensBefore(program));
  add("tensors", planfile::checkTensors(program));
  add("updates", planfile::checkUpdates(program));
  add("conservation", planfile::checkConservation(program));
  add("memory", planfile::checkMemory(program));
}

bool checkExact(const Outcome &got, const Reference &reference, const std::string &border,
                Report &report) {
  std::string name = "fp64:" + border + ":";
  const Outcome &exact = reference.exact;
  if (reference.one.options.infer) {
    TensorError results = resultError(got.results, exact.results);
    bool good = report.add(name + "outputs", results.name, results.value, kExact);
    return report.add(name + "replicas", "copies of one element", got.maxReplicaDifference,
                      kExact) &&
           good;
  }
  TensorError gradients = gradientError(got.gradients, exact.gradients);
  bool good = report.add(name + "loss", "first step",
                         relativeError(got.losses.front(), exact.losses[0]), kExact);
  good &= report.add(name + "gradients", gradients.name, gradients.value, kExact);
  good &= report.add(name + "norm", "grad_norm, tokens", outputError(got.outputs, exact.outputs),
                     kExact);
  good &= report.add(name + "replicas", "copies of one element", got.maxReplicaDifference, kExact);
  return good;
}

bool checkRoutes(const std::string &name, const RouteReplay &replay, const Reference &reference, Report &report) {
  if (!replay.hasRouters())
    return true;
  const RouteReplay::Result &result = replay.result();
  std::string note;
  for (const std::string &fault : result.faults)
    note += (note.empty() ? "" : "\n") + fault;
  return report.add(name, "near-ties as in fp64: " + result.text(), result.gap, limitsOf(reference.one.options).ties, note);
}

bool checkKernels(const Subject &subject, const Reference &reference, Outcome &outcome,
                  Report &report) {
  RouteReplay replay(*subject.program, exactOfPlan(reference).routes, limitsOf(reference.one.options).ties);
  auto run = runPlan(*subject.program, *subject.kernels, trialOfPlan(reference), {}, &replay);
  if (!report.add("kernels:run", "plan", run ? 0 : 1, 0, run ? "" : run.message()))
    return false;
  outcome = std::move(*run);
  bool good = checkRoutes("kernels:routes", replay, reference, report);
  const Outcome &exact = exactOfPlan(reference);
  const Limits limits = limitsOf(reference.one.options);
  auto limit = [&](double one) { return limits.ofError(one); };
  if (reference.one.options.infer) {
    TensorError results = resultDistance(outcome.results, exact.results);
    good &=
        report.add("kernels:outputs", results.name, results.value, limit(reference.results));
    // Both may be NaN where a row is masked as a whole, but not everywhere: weights have left the
    // range of their type then, in the reference too.
    TensorError lost = resultWithoutNumbers(exact.results);
    good &= report.add("kernels:finite", lost.name, lost.value, 0,
                       lost.value ? "no element of it is finite: weights or activations exceed the type "
                                    "that --precision chooses"
                                  : "");
    // Check the elements too: the norm hides a single wrong one. Allow more, since one rounding
    // may be unlucky.
    TensorError elements = resultError(outcome.results, exact.results);
    good &= report.add("kernels:elements", elements.name, elements.value,
                       5 * limit(reference.elements));
    return report.add("kernels:replicas", "copies of one element", outcome.maxReplicaDifference,
                      0) &&
           good;
  }
  TensorError gradients = gradientError(outcome.gradients, exact.gradients, limits.share);
  good &= report.add("kernels:loss", "first step",
                     relativeError(outcome.losses[0], exact.losses[0]), limit(reference.loss));
  good &= report.add("kernels:gradients", gradients.name, gradients.value,
                     limit(reference.gradients.value));
  good &= report.add("kernels:norm", "grad_norm, tokens",
                     outputError(outcome.outputs, exact.outputs), limit(reference.outputs));
  good &= report.add("kernels:replicas", "copies of one element", outcome.maxReplicaDifference, 0);
  return good;
}

} // namespace llmc::verify
