// Drives all checks of a training run, of an inference, of one phase boundary or of a dump.
#include "lib/verify/Verify.h"

#include "dialects/parallel/Annotations.h"
#include "lib/pipeline/Dump.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/pipeline/StoredPrecision.h"
#include "lib/support/Counted.h"
#include "lib/verify/PhaseBoundaries.h"
#include "lib/verify/subject/ProgressPhase.h"
#include "lib/verify/interpret/CompareUpdates.h"
#include "lib/verify/reference/Limits.h"
#include "lib/verify/reference/PlanChecks.h"
#include "lib/verify/reference/RoomChecks.h"
#include "lib/verify/source/FromFile.h"
#include "lib/verify/Interleavings.h"
#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/oracle/Oracle.h"
#include "lib/verify/FaultLocation.h"
#include "lib/verify/subject/RunPlan.h"
#include "lib/verify/source/StateChecks.h"
#include "lib/verify/scaled/ScaledDownModel.h"
#include "lib/verify/types/TypeChecks.h"
#include "lib/verify/kernels/Shapes.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <future>

using namespace mlir;

namespace llmc::verify {

using support::counted;

namespace {

class Verifier {
public:
  Verifier(MLIRContext &context, const VerifyOptions &options)
      : context(context), options(options) {}
  FailureOr<Report> run();

private:
  LogicalResult optimizer(Optimizer which, bool main);
  std::optional<Report> verifyBeside(Optimizer other, llvm::StringRef modelReplacement) const;
  LogicalResult inference();
  LogicalResult checkOneBoundary(Phase phase);
  LogicalResult dump();
  void describe(const CompileOptions &compile);
  void interleave(const Subject &subject, const Reference &reference); // if options select it
  LogicalResult oracle(const Reference &reference, const Outcome &ranks); // if options select it
  void updates(Optimizer which, const Outcome &exact, const UpdateErrors &equations,
               const Reference &reference, const Outcome &kernels);

  MLIRContext &context;
  const VerifyOptions &options;
  Report report;
};

// Adds updates:OPTIMIZER:... for what five steps leave: against the optimizer's equations, in
// double on all ranks, and with kernels.
void Verifier::updates(Optimizer which, const Outcome &nRanks, const UpdateErrors &equations,
                       const Reference &reference, const Outcome &kernels) {
  bool adam = which == Optimizer::AdamW;
  std::string name = adam ? "updates:adamw:" : "updates:sgd:";
  // Judge each tensor by itself, however small its gradient is.
  TensorError own = equations.largest();
  report.add(name + "equations", own.name, own.value, kExact);
  TensorError exact = vectorError(nRanks.weights, reference.exact.weights);
  report.add(name + "fp64", exact.name, exact.value, adam ? 1e-8 : kExact);
  if (kernels.losses.empty())
    return;
  const Outcome &meant = exactOfPlan(reference);
  const Limits limits = limitsOf(reference.one.options);
  if (adam) {
    report.add(name + "kernels", "losses of 5 steps", lossError(kernels.losses, meant.losses),
               limits.losses);
    return;
  }
  TensorError error = vectorError(kernels.weights, meant.weights);
  report.add(name + "kernels", error.name, error.value, limits.weights);
}

void Verifier::interleave(const Subject &subject, const Reference &reference) {
  if (!options.interleavings)
    return;
  ProgressPhase doing(options.progress, "interleavings", options.interleavings);
  checkInterleavings(*subject.program, *subject.kernels, trialOfPlan(reference), options.interleavings,
                     options.seed, report, doing.counter());
}

LogicalResult Verifier::oracle(const Reference &reference, const Outcome &ranks) {
  if (options.oracle.empty())
    return success();
  ProgressPhase doing(options.progress, "the model's own file");
  return checkOracle(options.oracle, reference, ranks, report);
}

LogicalResult Verifier::optimizer(Optimizer which, bool main) {
  CompileOptions compile = options.compile;
  compile.optimizer = which;
  std::optional<ProgressPhase> doing(std::in_place, options.progress, "compile for all ranks");
  FailureOr<Subject> subject =
      compileSubject(context, compile, Phase::Emit, options.modelReplacement);
  doing.reset();
  if (failed(subject))
    return failure();
  FailureOr<Reference> reference =
      makeReference(context, compile, options.seed, main, options.modelReplacement,
                    options.progress, !options.oracle.empty());
  if (failed(reference))
    return failure();
  doing.emplace(options.progress, "checks of the plan");
  if (main) {
    checkStatic(*subject->program, report);
    checkStates(*subject, &reference->one, options.seed, report);
    doing.emplace(options.progress, "the step against the model's file");
    checkFromFile(*reference, report);
  }
  checkUpdate(*reference, report);
  doing.reset();
  if (main && options.shapes)
    checkShapes(*subject, options.seed, report, options.progress);
  doing.emplace(options.progress, "all ranks in double", microBatchesOf(compile, reference->trial));
  UpdateErrors equations;
  ModuleOp parted = subject->at(Phase::Partition);
  FailureOr<Outcome> nRanks =
      interpret(parted, reference->trial, doing->counter(),
                compareUpdates(parted, which == Optimizer::AdamW, equations));
  if (failed(nRanks))
    return failure();
  if (main) {
    checkExact(*nRanks, *reference, "partition", report);
    doing.emplace(options.progress, "types, and all ranks with rounded numbers");
    checkTypes(parted, compile, reference->trial, report);
    checkSkip(parted, reference->trial, report);
  }
  doing.emplace(options.progress, "all ranks with kernels");
  if (main && failed(oracle(*reference, *nRanks)))
    return failure();
  Outcome kernels;
  if (main) {
    checkKernels(*subject, *reference, kernels, report);
    doing.emplace(options.progress, "the plan that may lack room for rows");
    if (failed(checkRoom(*subject, options.compile, *reference, report)))
      return failure();
    doing.reset();
    interleave(*subject, *reference);
  } else if (RouteReplay replay(*subject->program, exactOfPlan(*reference).routes, limitsOf(compile).ties);
             auto run = runPlan(*subject->program, *subject->kernels, trialOfPlan(*reference), {}, &replay)) {
    kernels = std::move(*run);
    checkRoutes(which == Optimizer::AdamW ? "updates:adamw:routes" : "updates:sgd:routes", replay, *reference, report);
  } else {
    report.add("kernels:run", "plan of the other optimizer", 1, 0, run.message());
  }
  updates(which, *nRanks, equations, *reference, kernels);
  if (main && !report.passed()) {
    doing.emplace(options.progress, "the place where numbers part");
    locateFault(*subject, *reference, report);
  }
  return success();
}

LogicalResult Verifier::inference() {
  std::optional<ProgressPhase> doing(std::in_place, options.progress, "compile for all ranks");
  FailureOr<Subject> subject =
      compileSubject(context, options.compile, Phase::Emit, options.modelReplacement);
  doing.reset();
  if (failed(subject))
    return failure();
  FailureOr<Reference> reference =
      makeReference(context, options.compile, options.seed, true, options.modelReplacement, options.progress);
  if (failed(reference))
    return failure();
  doing.emplace(options.progress, "checks of the plan");
  checkStatic(*subject->program, report);
  checkFromFile(*reference, report);
  checkStates(*subject, &reference->one, options.seed, report);
  doing.reset();
  if (options.shapes)
    checkShapes(*subject, options.seed, report, options.progress);
  doing.emplace(options.progress, "all ranks in double");
  FailureOr<Outcome> ranks = interpret(subject->at(Phase::Partition), reference->trial);
  if (failed(ranks))
    return failure();
  checkExact(*ranks, *reference, "partition", report);
  checkTypes(subject->at(Phase::Partition), options.compile, reference->trial, report);
  if (failed(oracle(*reference, *ranks)))
    return failure();
  Outcome kernels;
  doing.emplace(options.progress, "all ranks with kernels");
  checkKernels(*subject, *reference, kernels, report);
  doing.reset();
  interleave(*subject, *reference);
  if (!report.passed())
    locateFault(*subject, *reference, report);
  return success();
}

// Checks one phase boundary, for --after PHASE.
LogicalResult Verifier::checkOneBoundary(Phase phase) {
  FailureOr<Subject> subject =
      compileSubject(context, options.compile, phase, options.modelReplacement);
  if (failed(subject))
    return failure();
  FailureOr<Reference> reference = makeReference(context, options.compile, options.seed, false,
                                                 options.modelReplacement, options.progress);
  if (failed(reference))
    return failure();
  Outcome outcome;
  if (!checkPhaseBoundary(phase, *subject, *reference, report, &outcome)) {
    report.border = std::string(toString(phase));
    report.place = describeFaultLocation(subject->at(phase), outcome, *reference);
  }
  return success();
}

// Verifies a dump: checks the phase boundary at which it was written, then compiles it on and
// checks the plan that results.
LogicalResult Verifier::dump() {
  FailureOr<Dump> dump = readDump(context, options.compile.model);
  if (failed(dump))
    return failure();
  describe(dump->options);
  if (failed(verifyPhaseBoundary(*dump->module, dump->phase)))
    return emitError(UnknownLoc::get(&context))
           << options.compile.model << ": is not valid at phase boundary "
           << std::string(toString(dump->phase));
  FailureOr<Reference> reference =
      makeReference(context, dump->options, options.seed, true, {}, options.progress);
  if (failed(reference))
    return failure();
  Subject subject;
  subject.options = dump->options;
  subject.borders[dump->phase] = dump->module->clone();
  ProgressPhase doing(options.progress, "all ranks from the IR on");
  Outcome outcome;
  if (!checkPhaseBoundary(dump->phase, subject, *reference, report, &outcome)) {
    report.border = std::string(toString(dump->phase));
    report.place = describeFaultLocation(*dump->module, outcome, *reference);
    return success();
  }
  Phase refuser = dump->phase;
  if (failed(compileFrom(*dump->module, dump->phase, Phase::Emit, subject, &refuser)))
    return emitError(UnknownLoc::get(&context))
           << options.compile.model << ": at phase boundary " << std::string(toString(dump->phase))
           << ": phase " << std::string(toString(refuser)) << " refuses it";
  checkStatic(*subject.program, report);
  // Pass no one-rank subject: the weights come from offsets and rules that the IR names, not from
  // the model that it is compared with.
  checkStates(subject, nullptr, options.seed, report);
  if (ModuleOp parted = subject.at(Phase::Partition)) {
    checkTypes(parted, dump->options, reference->trial, report);
    if (!dump->options.infer)
      checkSkip(parted, reference->trial, report);
  }
  if (report.passed())
    checkKernels(subject, *reference, outcome, report);
  if (report.passed())
    interleave(subject, *reference);
  if (!report.passed())
    report.border = std::string(toString(dump->phase));
  return success();
}

void Verifier::describe(const CompileOptions &compile) {
  report.ranks = compile.ranks();
  report.device = "dp " + std::to_string(compile.dp) + " x pp " + std::to_string(compile.pp) +
                  " x tp " + std::to_string(compile.tp) +
                  (compile.cp > 1 ? " x cp " + std::to_string(compile.cp) : "") + " = " +
                  counted(compile.ranks(), "rank") + ", ";
  if (compile.infer) {
    report.device += "one run";
    return;
  }
  report.device += counted(compile.globalRows(), "row") + " a step in " +
                   counted(compile.microBatches(), "micro-batch") + ", " +
                   nameOf(compile.scheduleKind()) +
                   (compile.chunks() > 1 ? " of " + counted(compile.chunks(), "chunk") + " a stage" : "");
}

FailureOr<Report> Verifier::run() {
  const CompileOptions &compile = options.compile;
  report.model = compile.model;
  describe(compile);
  if (isDump(compile.model)) {
    if (failed(dump()))
      return failure();
    return std::move(report);
  }
  if (options.after) {
    if (failed(checkOneBoundary(*options.after)))
      return failure();
    return std::move(report);
  }
  if (compile.infer) {
    if (failed(inference()))
      return failure();
    return std::move(report);
  }
  bool adam = compile.optimizer == Optimizer::AdamW;
  Optimizer other = adam ? Optimizer::Sgd : Optimizer::AdamW;
  std::string modelReplacement; // Text crosses from one context to another.
  llvm::raw_string_ostream stream(modelReplacement);
  if (options.modelReplacement)
    ModuleOp(options.modelReplacement.module).print(stream, OpPrintingFlags().enableDebugInfo());
  std::future<std::optional<Report>> beside;
  if (!compile.afterPhase) // The callback must be called by one thread.
    beside =
        std::async(std::launch::async, [&, this] { return verifyBeside(other, modelReplacement); });
  LogicalResult ran = optimizer(compile.optimizer, true);
  std::optional<Report> second = beside.valid() ? beside.get() : std::nullopt;
  if (failed(ran))
    return failure();
  if (second)
    report.checks.insert(report.checks.end(), second->checks.begin(), second->checks.end());
  else if (failed(optimizer(other, false)))
    return failure();
  return std::move(report);
}

// Verifies the other optimizer in an MLIR context of its own, so that another thread can do it.
// Returns nullopt if that fails; the caller then repeats it in the shared context, which emits
// the diagnostics.
std::optional<Report> Verifier::verifyBeside(Optimizer other,
                                             llvm::StringRef modelReplacement) const {
  MLIRContext own(context.getDialectRegistry(), MLIRContext::Threading::DISABLED);
  own.loadAllAvailableDialects();
  ScopedDiagnosticHandler quiet(&own, [](Diagnostic &) { return success(); });
  VerifyOptions same = options;
  same.progress = same.compile.progress = nullptr;
  OwningOpRef<ModuleOp> copy;
  if (!modelReplacement.empty()) {
    copy = parseSourceString<ModuleOp>(modelReplacement, ParserConfig(&own));
    if (!copy)
      return std::nullopt;
    same.modelReplacement = {*copy, options.modelReplacement.border};
  }
  Verifier verifier(own, same);
  if (failed(verifier.optimizer(other, false)))
    return std::nullopt;
  return std::move(verifier.report);
}

// Fails if flags, or the model's config, ask for a training that other software does not do, so that no right plan
// could equal it.
LogicalResult checkOracleChoices(MLIRContext &context, const CompileOptions &options) {
  auto refuse = [&](llvm::StringRef lacks, llvm::StringRef remedy) {
    return emitError(UnknownLoc::get(&context))
           << options.model << ": --oracle compares with "
           << (llvm::StringRef(options.model).ends_with(".onnx") ? "ONNX Runtime and PyTorch" : "transformers")
           << ", where " << lacks << "; " << remedy;
  };
  if (options.moeCapacity > 0)
    return refuse("experts take all rows", "leave out --moe-capacity");
  if (options.dropout.value_or(0) > 0 || options.configDropout)
    return refuse("other elements are dropped", "leave out --dropout");
  OwningOpRef<ModuleOp> model = readModel(context, options);
  if (!model)
    return failure();
  if (!changesModel(*model, options)) // what is left is the balance
    return success();
  if (options.moeBalance == Balance::Bias)
    return refuse("no biases of routers are moved", "leave out --moe-balance bias");
  return refuse("the auxiliary loss of experts is not that of each row of tokens, or there is none",
                "give --moe-balance none");
}

} // namespace

FailureOr<Report> verifyModel(MLIRContext &context, const VerifyOptions &given) {
  bool isIr = llvm::StringRef(given.compile.model).ends_with(".mlir");
  if (!given.oracle.empty() && (isIr || given.after))
    return emitError(UnknownLoc::get(&context))
           << given.compile.model
           << ": --oracle runs a model's own file, an .onnx or a config.json, beside all of its plan: "
           << (isIr ? "IR has none" : "leave out --after");
  if (!given.oracle.empty() && !given.modelReplacement.module &&
      failed(checkOracleChoices(context, given.compile)))
    return failure();
  if (support::Status s = given.oracle.empty() ? support::ok()
                                               : checkPackages(given.oracle, given.compile);
      !s)
    return emitError(UnknownLoc::get(&context)) << given.compile.model << ": " << s.message();
  if (isDump(given.compile.model))
    return Verifier(context, given).run();
  VerifyOptions options = given;
  // IR says whether it is an inference, and an inference in what it computes.
  if (isIr || (options.compile.infer && !options.compile.precision)) {
    OwningOpRef<ModuleOp> model = readModel(context, options.compile);
    if (!model)
      return failure();
    options.compile.infer = parallel::isInference(*model);
    if (options.compile.infer && !options.compile.precision)
      options.compile.precision = storedPrecision(*model);
  }
  if (options.compile.infer && options.after == Phase::Train)
    return emitError(UnknownLoc::get(&context))
           << options.compile.model << ": --after train: an inference has no phase boundary train";
  std::optional<ProgressPhase> doing(std::in_place, options.progress, "read the model");
  FailureOr<bool> twin = needsScaledDownModel(context, options);
  doing.reset();
  if (failed(twin))
    return failure();
  if (*twin && !options.oracle.empty())
    return emitError(UnknownLoc::get(&context)) << options.compile.model
                                                << ": --oracle runs the model's own file, and a "
                                                   "scaled-down model would stand for it here "
                                                   "(--twin off runs the model itself)";
  if (*twin)
    return verifyScaledDownModel(context, options,
                      [&](const VerifyOptions &run) { return verifyModel(context, run); });
  return Verifier(context, options).run();
}

} // namespace llmc::verify
