// Searches for the bytes that each stage may keep for a micro-batch. The arena follows these nearly,
// but not quite: they are rounded up to cache lines, and what is computed again needs room meanwhile.
#include "lib/pipeline/FitMemory.h"

#include "dialects/plan/Plan.h"
#include "lib/pipeline/RunPasses.h"
#include "lib/support/Counted.h"
#include "passes/5-schedule/Passes.h"

#include <limits>

namespace llmc {
using namespace mlir;
namespace {

// Runs of phase 5, which takes most of the time of a compilation: in search of a budget that fits, and
// of larger ones that fit too, since the arena does not always grow with what is kept.
constexpr int kMostRuns = 8, kMostTries = 10;
constexpr int64_t kTries = 100; // a try keeps so small a part of the limit more than the one before

// Holds what a run of phase 5 made of one stage.
struct Measured {
  int64_t stage = 0, arena = 0, slots = 1, kept = 0; // bytes of a rank; bytes kept for one micro-batch
  Attribute choice;
};

// Searches for the largest budget of one stage with which it fits. The less a stage may keep, the
// more it runs again.
class StageSearch {
public:
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

  explicit StageSearch(int64_t limit) : limit(limit) {}

  // Takes in what the budget led to, and chooses the next one.
  void take(const Measured &now) {
    stage = now.stage;
    least = std::min(least, now.arena);
    bool fits = now.arena <= limit, isSame = best && best->choice == now.choice;
    if (fits)
      best = now;
    if (tries == 0) {
      bool isFound = fits ? grow(now, isSame) : shrink(now);
      if (!isFound && ++runs < kMostRuns)
        return;
      isDone = !best || lowest == kAny;
      budget = lowest;
    }
    isDone |= tries++ == kMostTries;
    budget += std::max<int64_t>(1, limit / kTries / now.slots);
  }

  int64_t budget = kAny;
  bool isDone = false;
  std::optional<Measured> best;
  int64_t stage = 0, least = kAny; // smallest arena so far

private:
  // Moves on to a larger budget than this one, which fits. Returns whether there is none.
  bool grow(const Measured &now, bool isSame) {
    lowest = budget;
    int64_t room = (limit - now.arena) / now.slots;
    return isSame || budget == kAny || room == 0 || !next(now.kept + room);
  }

  // Moves on to a smaller budget than this one, which does not fit. Returns whether there is none.
  bool shrink(const Measured &now) {
    bool isLeast = now.kept == last; // a smaller budget changed nothing
    last = now.kept;
    ++misses;
    highest = std::min(budget, now.kept);
    // Asks for the least there is before the runs are used up.
    int64_t wanted = now.kept - (now.arena - limit + now.slots - 1) / now.slots;
    return (isLeast && !best) || !next(!best && misses >= kMostRuns / 2 ? 0 : wanted);
  }

  // Chooses a budget between the largest that fitted and the smallest that did not, if there is one.
  bool next(int64_t wanted) {
    int64_t low = best ? lowest + 1 : 0, high = highest == kAny ? kAny : highest - 1;
    if (low <= high)
      budget = std::clamp(wanted, low, high);
    return low <= high;
  }

  int64_t limit, lowest = 0, highest = kAny, last = -1;
  int runs = 0, misses = 0, tries = 0;
};

// Runs phase 5 on a copy. Returns what became of the stages, in the order of their forward functions;
// nothing after errors.
FailureOr<SmallVector<Measured>> measure(ModuleOp module, const ScheduleOptions &options) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager pm(module.getContext());
  buildSchedulePipeline(pm, options);
  // Only the last run speaks, on the module itself.
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  if (failed(runPasses(pm, *copy)))
    return failure();
  DenseMap<int64_t, plan::StageOp> stages;
  for (auto stage : copy->getOps<plan::StageOp>())
    stages[stage.getStage()] = stage;
  SmallVector<Measured> list;
  auto kept = (*copy)->getAttrOfType<ArrayAttr>(kKept);
  for (auto entry : kept ? kept.getAsRange<DictionaryAttr>() : ArrayAttr().getAsRange<DictionaryAttr>()) {
    plan::StageOp stage = stages.lookup(entry.getAs<IntegerAttr>("stage").getInt());
    list.push_back({int64_t(stage.getStage()), int64_t(stage.getArenaBytes().value_or(0)),
                    std::max<int64_t>(1, stage.getSlotsOf(0)), entry.getAs<IntegerAttr>("bytes").getInt(), entry});
  }
  return list;
}

InFlightDiagnostic refuse(ModuleOp module, int64_t stage, int64_t arena, int64_t limit, StringRef what) {
  return module.emitError("--memory-limit ")
         << limit << ": the arena of a rank of stage " << stage << " takes " << arena << " bytes" << what
         << "; allow so many, ";
}

// Names what takes less, in a training step and in an inference.
constexpr const char *kSmaller = "or share out more (--zero, more tp, cp, pp or dp), or take fewer rows (--micro-batch) "
                                 "or tokens (--seq), or of several stages another --schedule";
constexpr const char *kSmallerInference = "or share out more (more tp, cp or pp), or take fewer rows or tokens (--dim)";

} // namespace

LogicalResult fitMemory(ModuleOp module, const ScheduleOptions &options, int64_t limit) {
  if (module->hasAttr(kKept)) // it was chosen before
    return success();
  std::vector<StageSearch> searches;
  ScheduleOptions run = options;
  for (int i = 0; i < kMostRuns + kMostTries + 1; ++i) {
    FailureOr<SmallVector<Measured>> stages = measure(module, run);
    if (failed(stages))
      return failure();
    searches.resize(stages->size(), StageSearch(limit));
    run.budgets.clear();
    for (auto [search, stage] : llvm::zip(searches, *stages)) {
      if (!search.isDone)
        search.take(stage);
      run.budgets.push_back(search.budget);
    }
    if (llvm::all_of(searches, [](const StageSearch &search) { return search.isDone; }))
      break;
  }
  SmallVector<Attribute> choices;
  bool fits = true;
  for (const StageSearch &search : searches) {
    if (search.best)
      choices.push_back(search.best->choice);
    else
      refuse(module, search.stage, search.least, limit, " in the smallest form that was found, whatever it computes again") << kSmaller;
    fits &= search.best.has_value();
  }
  module->setAttr(kKept, ArrayAttr::get(module.getContext(), choices));
  return success(fits);
}

LogicalResult checkMemory(ModuleOp plan, bool infer, int64_t limit) {
  bool fits = true;
  for (auto stage : plan.getOps<plan::StageOp>())
    if (int64_t arena = stage.getArenaBytes().value_or(0); arena > limit) {
      InFlightDiagnostic error = refuse(plan, stage.getStage(), arena, limit, "");
      if (infer)
        error << kSmallerInference;
      else
        error << "compute more again (--recompute auto), " << kSmaller;
      fits = false;
    }
  return success(fits);
}

} // namespace llmc
