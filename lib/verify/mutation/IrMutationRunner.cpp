// Applies a fault to the sound modules, compiles on from there, and compares with the sound
// results.
#include "lib/verify/mutation/IrMutationRunner.h"

#include "lib/verify/PhaseBoundaries.h"
#include "lib/verify/mutation/ChildProcesses.h"
#include "lib/verify/interpret/CompareUpdates.h"
#include "lib/verify/reference/PlanChecks.h"
#include "lib/verify/source/FromFile.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/mutation/IrEquivalence.h"
#include "lib/verify/subject/RunPlan.h"
#include "lib/verify/types/TypeChecks.h"
#include "mlir/IR/Verifier.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

using namespace mlir;

namespace llmc::verify {

namespace {

// Discards the diagnostics of a faulty compilation.
struct Quiet {
  explicit Quiet(MLIRContext &context)
      : handler(&context, [](Diagnostic &) { return success(); }) {}
  ScopedDiagnosticHandler handler;
};

std::string firstFailing(const Report &report) {
  for (const Check &check : report.checks)
    if (!check.passed)
      return check.name;
  return "";
}

double updateError(const NamedTensors &got, const NamedTensors &expected,
                   const NamedTensors &before) {
  auto updates = [&](const NamedTensors &after) {
    NamedTensors result;
    for (const auto &[name, tensor] : after) {
      Tensor &change = result[name] = tensor;
      auto was = before.find(name);
      for (int64_t i = 0; was != before.end() && i < change.size(); ++i)
        change.data[i] -= was->second.data[i];
    }
    return result;
  };
  return vectorError(updates(got), updates(expected)).value;
}

} // namespace

bool IrDecision::below() const {
  return overwriter.empty() && reason.empty() && change <= kIrThreshold;
}

FailureOr<std::unique_ptr<IrMutationRunner>> IrMutationRunner::create(MLIRContext &context,
                                                    const VerifyOptions &options) {
  std::unique_ptr<IrMutationRunner> court(new IrMutationRunner(context, options));
  FailureOr<Subject> sound = compileSubject(context, options.compile);
  FailureOr<Reference> reference = makeReference(context, options.compile, options.seed);
  if (failed(sound) || failed(reference))
    return failure();
  court->sound = std::move(*sound);
  court->reference = std::move(*reference);
  court->first = court->reference.trial;
  court->first.steps.resize(1);
  auto plan = runPlan(*court->sound.program, *court->sound.kernels, court->reference.trial);
  if (!plan)
    return court->sound.at(Phase::Train).emitError() << plan.message();
  court->plan = std::move(*plan);
  return court;
}

std::vector<IrMutant> IrMutationRunner::list() const {
  std::vector<IrMutant> all;
  for (Phase phase : {Phase::Raise, Phase::Train, Phase::Shard, Phase::Partition}) {
    OwningOpRef<ModuleOp> module = sound.at(phase).clone();
    for (IrMutant &mutant : listIrMutants(*module, phase))
      all.push_back(std::move(mutant));
  }
  return all;
}

// Returns the first failing check of `verify` among those that need no plan. The fault is made in
// the sound module of its phase boundary.
std::string IrMutationRunner::quickKiller(Phase phase, const IrFault &fault) const {
  auto compile = [&](const Subject &of, Phase upTo, Subject &to) {
    to.options = of.options;
    OwningOpRef<ModuleOp> module = of.at(phase).clone();
    fault(phase, *module);
    return succeeded(mlir::verify(*module)) && succeeded(compileFrom(*module, phase, upTo, to));
  };
  const bool adam = options.compile.optimizer == Optimizer::AdamW;
  const std::string updates = adam ? "updates:adamw:" : "updates:sgd:";
  Subject one, all;
  bool inReference = phase <= Phase::Train;
  if ((inReference && !compile(reference.one, Phase::Train, one)) ||
      !compile(sound, Phase::Partition, all))
    return "refused";
  for (const Trial *trial : {&first, &reference.trial}) {
    Reference own;
    own.one.options = reference.one.options;
    Report report;
    if (inReference) {
      ModuleOp trained = one.at(Phase::Train);
      FailureOr<Outcome> exact =
          interpret(trained, *trial, {}, compareUpdates(trained, adam, own.update));
      if (failed(exact))
        return "refused";
      own.exact = std::move(*exact);
      own.trial = *trial;
      own.one.borders[Phase::Import] = reference.one.at(Phase::Import).clone();
      for (Phase border : {Phase::Raise, Phase::Train})
        own.one.borders[border] = (one.at(border) ? one : reference.one).at(border).clone();
      checkFromFile(own, report);
      checkUpdate(own, report);
      if (!report.passed())
        return firstFailing(report);
    }
    UpdateErrors equations;
    ModuleOp parted = all.at(Phase::Partition);
    auto ranks = interpret(parted, *trial, {}, compareUpdates(parted, adam, equations));
    if (failed(ranks))
      return "refused";
    const Reference &expected = inReference ? own : reference;
    checkExact(*ranks, expected, "partition", report);
    if (trial == &first) {
      checkTypes(parted, options.compile, first, report);
      checkSkip(parted, first, report);
    }
    report.add(updates + "equations", "", equations.largest().value, 1e-10);
    if (trial != &first)
      report.add(updates + "fp64", "", vectorError(ranks->weights, expected.exact.weights).value,
                 adam ? 1e-8 : 1e-10);
    if (!report.passed())
      return firstFailing(report);
  }
  return "";
}

std::string IrMutationRunner::killerOfVerify(const CompileOptions &faulty) const {
  VerifyOptions asked = options;
  asked.compile = faulty;
  asked.progress = nullptr;
  FailureOr<Report> report = verifyModel(context, asked);
  return failed(report) ? "refused" : firstFailing(*report);
}

// Measures the change by the kernels of the faulty plan, independently of the checks that it
// passed.
double IrMutationRunner::changeOf(const CompileOptions &faulty) const {
  FailureOr<Subject> subject = compileSubject(context, faulty);
  if (failed(subject))
    return INFINITY;
  auto run = runPlan(*subject->program, *subject->kernels, reference.trial);
  if (!run)
    return INFINITY;
  double change = lossError(run->losses, plan.losses);
  change = std::max(change, gradientError(run->gradients, plan.gradients).value);
  return std::max(change, updateError(run->weights, plan.weights, reference.trial.weights));
}

IrDecision IrMutationRunner::decide(Phase phase, const IrFault &fault) const {
  Quiet quiet(context);
  IrDecision decision;
  // Skip the quick checks for a fault of the imported model, which they compare with.
  if (phase != Phase::Import && phase <= Phase::Partition)
    decision.overwriter = quickKiller(phase, fault);
  if (!decision.overwriter.empty())
    return decision;
  if (quick) {
    decision.change = INFINITY;
    return decision;
  }
  CompileOptions faulty = options.compile;
  faulty.afterPhase = [&](Phase at, Operation *op) {
    if (at == phase)
      fault(at, cast<ModuleOp>(op));
  };
  decision.overwriter = killerOfVerify(faulty);
  if (decision.overwriter.empty())
    decision.change = changeOf(faulty);
  return decision;
}

IrDecision IrMutationRunner::decide(const IrMutant &mutant) const {
  OwningOpRef<ModuleOp> before = sound.at(mutant.phase).clone(), after = before->clone();
  apply(mutant, *after);
  IrDecision decision;
  if (succeeded(mlir::verify(*after)))
    decision.reason = irEquivalence(*before, *after);
  if (!decision.reason.empty())
    return decision;
  return decide(mutant.phase, [&](Phase, ModuleOp module) { return apply(mutant, module); });
}

std::vector<IrDecision> IrMutationRunner::decide(const std::vector<IrMutant> &mutants,
                                                 unsigned processes, unsigned seconds,
                                                 const std::function<void(size_t)> &ended) const {
  auto work = [&](size_t i) {
    IrDecision decision = decide(mutants[i]);
    std::ostringstream text;
    text << decision.overwriter << "\t" << decision.reason << "\t" << decision.change;
    return text.str();
  };
  std::vector<IrDecision> decisions;
  for (const std::string &said :
       runInChildProcesses(mutants.size(), processes, seconds, work, ended)) {
    IrDecision &decision = decisions.emplace_back();
    size_t first = said.find('\t'), second = said.find('\t', first + 1);
    decision.overwriter = said.substr(0, first);
    if (first == std::string::npos)
      continue;
    decision.reason = said.substr(first + 1, second - first - 1);
    decision.change = std::strtod(said.c_str() + second + 1, nullptr);
  }
  return decisions;
}

} // namespace llmc::verify
