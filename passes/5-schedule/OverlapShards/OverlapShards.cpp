// Reorders what moves parts of weights and gradients, so that it overlaps with computation.
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/Streams.h"

namespace llmc {
#define GEN_PASS_DEF_OVERLAPSHARDS
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// Holds collectives that stand together: those of one layer.
using Unit = SmallVector<plan::CollectiveOp, 2>;

bool isScratch(Value buffer) { return rootOf(buffer).first.getSpace() == plan::Space::scratch; }

bool isGather(plan::CollectiveOp op) {
  return op.getKind() == plan::CollectiveKind::all_gather && isScratch(op.getDst()) &&
         rootOf(op.getSrc()).first.getSpace() == plan::Space::persistent;
}

// Returns the launch that adds what a reduce-scatter gives, if that is all that reads it; null if
// there is none.
plan::LaunchOp additionOf(plan::CollectiveOp op) {
  if (op.getKind() != plan::CollectiveKind::reduce_scatter || !isScratch(op.getDst()))
    return {};
  plan::BufferOp root = rootOf(op.getDst()).first;
  plan::LaunchOp addition;
  for (Operation *user : root.getResult().getUsers()) {
    // Leaves out other procedures: that of the last micro-batch does the same with the same scratch.
    if (user == op || (user->getBlock() != op->getBlock() && !isa<plan::BufferOp>(user)))
      continue;
    auto launch = dyn_cast<plan::LaunchOp>(user);
    if (!launch || addition || !op->isBeforeInBlock(launch) || launch.getWrites().size() != 1 ||
        rootOf(launch.getWrites()[0]).first.getSpace() != plan::Space::persistent)
      return {};
    addition = launch;
  }
  return addition;
}

// Returns the launch right before a reduce-scatter that casts what it reads; null if there is none.
plan::LaunchOp castOf(plan::CollectiveOp op) {
  auto launch = dyn_cast_or_null<plan::LaunchOp>(op->getPrevNode());
  return launch && launch.getWrites().size() == 1 && launch.getWrites()[0] == op.getSrc() &&
                 llvm::hasSingleElement(launch.getBody().front().without_terminator()) &&
                 isa<graph::CastOp>(launch.getBody().front().front())
             ? launch
             : plan::LaunchOp();
}

// Returns the launch right before a reduce-scatter that writes the padding of what it reads; null if there is none.
plan::LaunchOp fillOf(plan::CollectiveOp op) {
  auto launch = dyn_cast_or_null<plan::LaunchOp>(op->getPrevNode());
  return launch && launch.getReads().empty() && launch.getWrites().size() == 1 &&
                 rootOf(launch.getWrites()[0]).first == rootOf(op.getSrc()).first
             ? launch
             : plan::LaunchOp();
}

class Overlapper {
public:
  Overlapper(plan::ProcedureOp procedure, int64_t ahead)
      : block(procedure.getBody().front()), ahead(ahead) {}

  // Counts the gathers and additions that have moved.
  int64_t gathers = 0, additions = 0;

  void run() {
    advanceGathers(unitsOf([](plan::CollectiveOp op) { return isGather(op); }));
    delayAdditions(unitsOf([](plan::CollectiveOp op) { return bool(additionOf(op)); }));
  }

private:
  // Groups the collectives that `wanted` accepts: only other such ones, and what casts their
  // operands, writes the padding of these and adds their results, stand between those of a unit.
  std::vector<Unit> unitsOf(llvm::function_ref<bool(plan::CollectiveOp)> wanted) {
    std::vector<Unit> units;
    bool together = false;
    llvm::DenseSet<Operation *> between;
    for (auto collective : block.getOps<plan::CollectiveOp>())
      if (wanted(collective)) {
        between.insert(castOf(collective));
        between.insert(fillOf(collective));
      }
    for (Operation &op : block) {
      auto collective = dyn_cast<plan::CollectiveOp>(op);
      if (!collective || !wanted(collective)) {
        together &= between.contains(&op);
        continue;
      }
      if (!together)
        units.emplace_back();
      units.back().push_back(collective);
      together = true;
      if (plan::LaunchOp addition = additionOf(collective))
        between.insert(addition);
    }
    return units;
  }

  // Moves each unit behind the place of the unit `ahead` before it; the first ones to the start.
  void advanceGathers(const std::vector<Unit> &units) {
    SmallVector<Operation *> places; // what stands behind each unit
    for (const Unit &unit : units)
      places.push_back(unit.back()->getNextNode());
    for (size_t i = 1; i < units.size(); ++i) {
      Operation *place = static_cast<int64_t>(i) >= ahead ? places[i - ahead] : places.front();
      for (plan::CollectiveOp op : units[i]) {
        op->moveBefore(place);
        ++gathers;
      }
    }
  }

  void delayAdditions(const std::vector<Unit> &units) {
    for (size_t i = 0; i + 1 < units.size(); ++i)
      for (plan::CollectiveOp op : units[i]) {
        additionOf(op)->moveBefore(units[i + 1].front());
        ++additions;
      }
  }

  Block &block;
  int64_t ahead;
};

struct OverlapShards : impl::OverlapShardsBase<OverlapShards> {
  using OverlapShardsBase::OverlapShardsBase;
  void runOnOperation() override {
    if (ahead < 0) {
      getOperation().emitError("ahead is ") << ahead.getValue() << ", expected 0 or more layers";
      return signalPassFailure();
    }
    if (ahead == 0)
      return;
    for (auto stage : getOperation().getOps<plan::StageOp>())
      for (auto procedure : stage.getBody().getOps<plan::ProcedureOp>()) {
        if (procedure.getKind() == plan::ProcedureKind::update)
          continue;
        Overlapper overlapper(procedure, ahead);
        overlapper.run();
        numGathers += overlapper.gathers;
        numAdditions += overlapper.additions;
      }
  }
};

} // namespace
} // namespace llmc
