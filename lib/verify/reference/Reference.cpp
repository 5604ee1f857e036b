#include "lib/verify/reference/Reference.h"

#include "lib/verify/reference/Limits.h"

#include "lib/verify/interpret/CompareUpdates.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/interpret/Sources.h"
#include "lib/verify/subject/ProgressPhase.h"
#include "lib/verify/subject/RunPlan.h"

using namespace mlir;

namespace llmc::verify {

// Counts the micro-batches that the interpreters run, for progress.
uint64_t microBatchesOf(const CompileOptions &options, const Trial &trial) {
  uint64_t count = options.infer ? 1 : 0;
  for (size_t i = 0; i < trial.steps.size() && !options.infer; ++i)
    count += static_cast<uint64_t>(options.microBatches() / trial.steps[i].repeats);
  return count;
}

const Trial &trialOfPlan(const Reference &reference) {
  return reference.distinct ? reference.distinct->trial : reference.trial;
}
const Outcome &exactOfPlan(const Reference &reference) {
  return reference.distinct ? reference.distinct->exact : reference.exact;
}

FailureOr<Reference> makeReference(MLIRContext &context, const CompileOptions &options,
                                   uint64_t seed, bool withPlan, ModelReplacement modelReplacement,
                                   support::Progress *progress, bool unifyShared) {
  Reference reference;
  std::optional<ProgressPhase> doing(std::in_place, progress, "compile for one rank");
  FailureOr<Subject> one = compileSubject(context, oneRank(options), Phase::Emit, modelReplacement);
  if (failed(one))
    return failure();
  reference.one = std::move(*one);
  ModuleOp trained = reference.one.at(Phase::Train);
  support::Result<Trial> trial = drawTrial(reference.one, seed, options.infer ? kRuns : kSteps, kDifferent);
  if (!trial)
    return trained.emitError() << trial.message();
  reference.trial = std::move(*trial);
  if (unifyShared)
    unifySharedTensors(reference.one.at(Phase::Import), reference.trial.weights);
  doing.emplace(progress, "one rank in double",
                microBatchesOf(reference.one.options, reference.trial));
  FailureOr<Outcome> exact =
      interpret(trained, reference.trial, doing->counter(),
                compareUpdates(trained, options.optimizer == Optimizer::AdamW, reference.update));
  if (failed(exact))
    return failure();
  reference.exact = std::move(*exact);
  if (!withPlan)
    return reference;
  if (!options.infer && reference.trial.steps.front().repeats > 1) {
    Steps &distinct = reference.distinct.emplace();
    distinct.trial = reference.trial;
    distinct.trial.steps.front() = drawStep(reference.one, seed, 0);
    doing.emplace(progress, "one rank in double",
                  microBatchesOf(reference.one.options, distinct.trial));
    FailureOr<Outcome> steps = interpret(trained, distinct.trial, doing->counter());
    if (failed(steps))
      return failure();
    distinct.exact = std::move(*steps);
  }
  Trial first = trialOfPlan(reference);
  if (!options.infer)
    first.steps.resize(1);
  doing.emplace(progress, "one rank with kernels");
  RouteReplay replay(*reference.one.program, exactOfPlan(reference).routes, limitsOf(options).ties);
  auto plan = runPlan(*reference.one.program, *reference.one.kernels, first, {}, &replay);
  if (!plan)
    return trained.emitError() << "the plan for one rank: " << plan.message();
  if (options.infer) {
    reference.results = resultDistance(plan->results, reference.exact.results).value;
    reference.elements = resultError(plan->results, reference.exact.results).value;
    return reference;
  }
  const Outcome &meant = exactOfPlan(reference);
  reference.gradients = gradientError(plan->gradients, meant.gradients, limitsOf(options).share);
  reference.loss = relativeError(plan->losses[0], meant.losses[0]);
  reference.outputs = outputError(plan->outputs, meant.outputs);
  return reference;
}

} // namespace llmc::verify
