// Estimates costs, searches for a scaled-down model with an isomorphic plan, and merges both
// reports.
#include "lib/verify/scaled/ScaledDownModel.h"

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Annotations.h"
#include "lib/planfile/AxisNames.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/support/Counted.h"
#include "lib/verify/subject/DiagnosticCapture.h"
#include "lib/verify/subject/ProgressPhase.h"
#include "lib/verify/reference/PlanChecks.h"
#include "lib/verify/source/FromFile.h"
#include "lib/verify/scaled/Isomorphism.h"
#include "lib/verify/scaled/Shrink.h"
#include "passes/5-schedule/Passes.h"
#include "lib/verify/source/StateChecks.h"
#include "lib/verify/kernels/Shapes.h"
#include "llvm/Support/Path.h"

#include <fstream>

using namespace mlir;

namespace llmc::verify {

using support::counted;
using support::text;

namespace {

constexpr double kSecondsAtMost = 600;
constexpr double kOperationsPerSecond = 3e8; // speed of the interpreters' loops in double

// Returns the bytes that the system has available; infinity if it does not report them.
double freeMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, rest; file >> key && std::getline(file, rest);)
    if (key == "MemAvailable:")
      return std::stod(rest) * 1024;
  return std::numeric_limits<double>::infinity();
}

// Compiles the model up to boundary raise, with the micro-batch rows of `options`.
FailureOr<Subject> raise(MLIRContext &context, const CompileOptions &options) {
  return compileSubject(context, options, Phase::Raise);
}

void keepFirstLines(std::string &note, const Isomorphism &found) {
  for (const std::string &line : found.differences)
    note += line + "\n";
  if (found.count > found.differences.size())
    note += text(found.count - found.differences.size(), " more\n");
}

std::string meshText(const CompileOptions &o) { return text(o.dp, "x", o.pp, "x", o.tp, o.cp > 1 ? text(" x cp ", o.cp) : ""); }

} // namespace

Cost estimateCost(ModuleOp raised, const CompileOptions &options) {
  double operations = 0, elements = 0;
  raised.walk([&](graph::GraphOpInterface op) {
    double times = 1;
    for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
      if (auto repeat = dyn_cast<graph::RepeatOp>(parent))
        times *= double(repeat.getCount());
    operations += times * op.getFlops();
  });
  for (auto state : raised.getOps<graph::StateOp>())
    elements += double(cast<ShapedType>(state.getType()).getNumElements());
  Cost cost;
  if (options.infer) { // one run, on one rank and on all; weights in double and in float
    cost.seconds = operations * 2 / kOperationsPerSecond;
    cost.bytes = elements * (8 * 2 + 4) * double(1 + options.dp);
    return cost;
  }
  // Count a forward pass and twice that for the backward pass, on one rank and on all, for two
  // optimizers.
  double runs = 3.0 * double(options.microBatches()) * kSteps * 2 * 2;
  cost.seconds = operations * runs / kOperationsPerSecond;
  // Count weights, gradients and two moments in double, with a copy, and the same in float.
  cost.bytes = elements * (8 * 8 + 4 * 4) * double(1 + options.dp);
  return cost;
}

FailureOr<bool> needsScaledDownModel(MLIRContext &context, const VerifyOptions &options) {
  bool isDump = llvm::sys::path::extension(options.compile.model) == ".mlir";
  if (options.twin == ScaledDownMode::On)
    return true;
  if (options.twin == ScaledDownMode::Off || options.modelReplacement || isDump)
    return false;
  FailureOr<Subject> raised = raise(context, options.compile);
  if (failed(raised))
    return failure();
  Cost cost = estimateCost(raised->at(Phase::Raise), options.compile);
  // Two optimizers are verified concurrently, in half of the memory.
  double atATime = options.compile.infer ? 1 : 2;
  return cost.seconds > kSecondsAtMost || cost.bytes * atATime > freeMemory() / 2;
}

CompileOptions scaledDownOptions(const CompileOptions &options) {
  CompileOptions twin = options;
  if (options.infer) // The batch is the model's own.
    return twin;
  // Keep dp where experts share ranks with rows: there it is several axes, which keep their
  // sizes.
  if (options.ep == 1)
    twin.dp = std::min<int64_t>(options.dp, 2);
  twin.globalBatch = options.microBatches() * twin.batchRows();
  return twin;
}

namespace {

// Holds the scaled-down model and how its plan relates to the large one.
struct ScaledDownModel {
  OwningOpRef<ModuleOp> model;
  Phase border; // phase boundary that `model` is at
  std::string sizes;
  Isomorphism likeness;
  // Holds the imported model scaled down, if its plan is not isomorphic, and the first
  // difference.
  OwningOpRef<ModuleOp> imported;
  std::string difference;
};

// Bounds the widths that the second attempt keeps, if that is cheap: where sizes of the plan are
// equal by chance (2 layers of 32 and a width of 64), one of its kernels may become two when the
// sizes are scaled down.
constexpr int64_t kKept = 512;
constexpr double kKeptSeconds = 60;
// Bounds what a run may cost before the tokens of a row become as few as can be.
constexpr double kManySeconds = 60;

class ModelScaler {
public:
  ModelScaler(MLIRContext &context, const CompileOptions &options, const Subject &plan)
      : context(context), options(options), plan(plan) {}

  FailureOr<ScaledDownModel> make();

private:
  // Scales `model` down and compiles it. Fails after diagnostics.
  FailureOr<ScaledDownModel> shrinkAt(ModuleOp model, Phase border, int64_t kept,
                                      bool fewTokens = false);
  // Returns the first way of scaling down whose plan is isomorphic, or else the first.
  FailureOr<ScaledDownModel> tryAt(ModuleOp model, Phase border);

  MLIRContext &context;
  const CompileOptions &options;
  const Subject &plan;
};

FailureOr<ScaledDownModel> ModelScaler::shrinkAt(ModuleOp model, Phase border, int64_t kept,
                                                 bool fewTokens) {
  ScaledDownModel small{model.clone(), border, {}, {}, {}, {}};
  if (failed(shrinkModel(*small.model, options.tp * options.cp, small.sizes, kept, fewTokens)))
    return failure();
  if (kept && estimateCost(*small.model, options).seconds > kKeptSeconds)
    return small.model->emitError("would take long");
  // Keep the plan's buckets: they are cut by bytes, of which the scaled-down model has fewer.
  if (Attribute pieces = plan.at(Phase::Schedule)->getAttr("plan.bucket_pieces"))
    (*small.model)->setAttr("plan.bucket_pieces", pieces);
  // Keep what the plan keeps for backward: a limit in bytes would choose otherwise.
  if (Attribute kept = plan.at(Phase::Schedule)->getAttr(llmc::kKept))
    (*small.model)->setAttr(llmc::kKept, kept);
  FailureOr<Subject> twin = compileSubject(context, options, Phase::Emit, {*small.model, border});
  if (failed(twin))
    return failure();
  std::vector<std::string> replicas;
  for (uint32_t axis : planfile::axesOf(*plan.program->mesh, planfile::AxisRole::Data))
    replicas.push_back(plan.program->mesh->axes[axis]->name);
  small.likeness = compare(*plan.program, *twin->program, replicas);
  return small;
}

FailureOr<ScaledDownModel> ModelScaler::tryAt(ModuleOp model, Phase border) {
  FailureOr<ScaledDownModel> first = shrinkAt(model, border, 0);
  DiagnosticCapture captured(&context); // suppresses diagnostics of further attempts
  if (succeeded(first) && estimateCost(*first->model, options).seconds > kManySeconds) {
    FailureOr<ScaledDownModel> few = shrinkAt(model, border, 0, /*fewTokens=*/true);
    if (succeeded(few) && (few->likeness.count == 0 || first->likeness.count != 0))
      first = std::move(few);
  }
  if (succeeded(first) && first->likeness.count == 0)
    return first;
  FailureOr<ScaledDownModel> second = shrinkAt(model, border, kKept);
  if (succeeded(second) && second->likeness.count == 0)
    return second;
  return first;
}

// Scales down the imported model if its plan is isomorphic, so that raising is verified too;
// otherwise the raised one, since a raising pattern may recognize sizes by their values.
FailureOr<ScaledDownModel> ModelScaler::make() {
  FailureOr<Subject> raised = raise(context, options);
  if (failed(raised))
    return failure();
  OwningOpRef<ModuleOp> imported;
  std::string difference;
  {
    DiagnosticCapture captured(&context);
    FailureOr<ScaledDownModel> small = tryAt(raised->at(Phase::Import), Phase::Import);
    if (succeeded(small) && small->likeness.count == 0)
      return small;
    if (succeeded(small))
      imported = std::move(small->model);
    difference = succeeded(small) ? small->likeness.differences.front() : captured.text;
  }
  FailureOr<ScaledDownModel> small = tryAt(raised->at(Phase::Raise), Phase::Raise);
  if (succeeded(small)) {
    small->imported = std::move(imported);
    small->difference = difference.substr(0, difference.find('\n'));
  }
  return small;
}

// Runs the checks against the file, if the scaled-down model was not made from it, on a
// scaled-down graph of the file by itself.
LogicalResult checkApart(MLIRContext &context, const VerifyOptions &options,
                         const ScaledDownModel &twin, Report &report) {
  if (!twin.imported)
    return success();
  ProgressPhase doing(options.progress, "the step against a smaller file");
  FailureOr<Reference> reference =
      makeReference(context, options.compile, options.seed, /*withPlan=*/false,
                    {*const_cast<OwningOpRef<ModuleOp> &>(twin.imported), Phase::Import});
  if (failed(reference))
    return failure();
  checkFromFile(*reference, report);
  return success();
}

std::string describeFile(const ScaledDownModel &twin) {
  if (twin.border == Phase::Import)
    return "";
  return text("file        ",
              twin.imported ? "its graph was made smaller by itself"
                            : "its graph cannot be made smaller, so that raising is not verified",
              " (", twin.difference, ")\n");
}

} // namespace

FailureOr<Report> verifyScaledDownModel(MLIRContext &context, const VerifyOptions &options,
                             VerifyModel verifyModel) {
  std::optional<ProgressPhase> doing(std::in_place, options.progress, "compile the plan");
  FailureOr<Subject> plan = compileSubject(context, options.compile);
  if (failed(plan))
    return failure();
  Report report;
  doing.emplace(options.progress, "checks of the plan");
  checkStatic(*plan->program, report);
  checkStates(*plan, nullptr, options.seed, report);
  doing.reset();
  checkShapes(*plan, options.seed, report, options.progress);
  doing.emplace(options.progress, "compile the scaled-down model");

  CompileOptions small = scaledDownOptions(options.compile);
  // Keep the layers of the stages: sizes that are scaled down would balance otherwise.
  if (auto counts = plan->at(Phase::Schedule)->getAttrOfType<DenseI64ArrayAttr>(parallel::kStageLayers);
      counts && counts.size() > 1)
    small.stages.assign(counts.asArrayRef().begin(), counts.asArrayRef().end());
  FailureOr<ScaledDownModel> twin = ModelScaler(context, small, *plan).make();
  if (failed(twin))
    return failure();
  const Isomorphism &found = twin->likeness;
  std::string note;
  keepFirstLines(note, found);
  std::string subject = text(found.instructions, " instructions, ", found.reads, " reads");
  report.add("static:twin-isomorphic", subject, double(found.count), 0, note);
  doing.reset();
  // Free the large plan, which is not needed any more.
  plan = failure();

  VerifyOptions run = options;
  run.compile = small;
  run.twin = ScaledDownMode::Off;
  run.modelReplacement = {*twin->model, twin->border};
  run.shapes = false; // Those of the plan have run.
  FailureOr<Report> ran = verifyModel(run);
  if (failed(ran) || failed(checkApart(context, run, *twin, report)))
    return failure();
  for (Check &check : ran->checks) {
    if (check.name.rfind("static:", 0) == 0 || check.name.rfind("states:", 0) == 0)
      check.subject = "twin";
    report.checks.push_back(std::move(check));
  }
  ran->checks = std::move(report.checks);
  ran->ranks = uint64_t(options.compile.ranks());
  ran->twin = {{"ranks", small.ranks()}, {"mesh", meshText(small)}, {"sizes", twin->sizes},
               {"isomorphic", found.count == 0}, {"instructions", found.instructions},
               {"reads", found.reads}};
  ran->relation = text(
      options.twin == ScaledDownMode::On ? "" : "the plan is too large to run here\n",
      "twin        runs in its place on mesh ", meshText(small), ", ",
      counted(small.ranks(), "rank"), " of ", options.compile.ranks(),
      "; same layers, stages, schedule",
      options.compile.infer ? std::string()
                            : text(", ", counted(options.compile.microBatches(), "micro-batch")),
      "\nsizes       ", twin->sizes, "\n", describeFile(*twin));
  return std::move(*ran);
}

} // namespace llmc::verify
