// Assigns every buffer an offset in one static arena.
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/AssignArena/Lifetimes.h"
#include "passes/5-schedule/Buffers.h"

#include "llvm/Support/DebugLog.h"

#include <map>

#define DEBUG_TYPE "llmc-assign-arena"

namespace llmc {
#define GEN_PASS_DEF_ASSIGNARENA
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// Aligns buffers to a cache line, which no vector register exceeds.
constexpr int64_t alignment = 64;
int64_t align(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// Holds a scratch buffer, and the instructions that touch it, by procedure.
struct Scratch {
  plan::BufferOp root;
  int64_t bytes, offset = -1;
  std::map<size_t, BufferUses> touches;
};

class StageArena {
public:
  explicit StageArena(plan::StageOp stage) : stage(stage) {
    llvm::append_range(procedures, stage.getBody().getOps<plan::ProcedureOp>());
    for (plan::ProcedureOp procedure : procedures)
      orders.emplace_back(procedure);
  }
  LogicalResult run();

private:
  int64_t placeAll(plan::Space space, int64_t at, int64_t pool = 0);
  int64_t place(llvm::function_ref<bool(plan::BufferOp)> wanted, int64_t at);
  bool isSumOfStep(plan::BufferOp op) const;
  int64_t placePools(int64_t at);
  std::vector<Scratch> collectScratch();
  void sortScratch();
  int64_t placeLagging(int64_t at);
  bool slotsEndBeforeUpdate() const;
  bool interfere(const Scratch &a, const Scratch &b) const;
  int64_t pack(std::vector<Scratch *> &list, int64_t at, std::vector<Scratch *> &placed) const;
  bool isOfUpdate(const Scratch &scratch) const;

  plan::StageOp stage;
  SmallVector<plan::ProcedureOp> procedures;
  std::vector<ProcedureOrder> orders;
  std::vector<Scratch> scratch;
  // Sorts them: those that share bytes where their times do not meet, those of the update alone, those
  // that one lagging stream touches, and those that share bytes with nobody.
  std::vector<Scratch *> shared, ofUpdate, alone;
  std::map<int64_t, std::vector<Scratch *>> lagging; // by stream
};

// Places the buffers without parent that are wanted one after the other; returns the end.
int64_t StageArena::place(llvm::function_ref<bool(plan::BufferOp)> wanted, int64_t at) {
  for (auto op : stage.getBody().getOps<plan::BufferOp>()) {
    if (op.getParent() || !wanted(op))
      continue;
    op.setOffset(at);
    at += align(cast<plan::BufferType>(op.getType()).getByteSize());
  }
  return at;
}

// Places those of one space (and pool).
int64_t StageArena::placeAll(plan::Space space, int64_t at, int64_t pool) {
  return place([&](plan::BufferOp op) {
    return op.getSpace() == space && op.getPool().value_or(0) == uint64_t(pool);
  }, at);
}

// Returns whether an op, or one that uses the view that it makes, stands in the update.
static bool isInUpdate(Operation *op) {
  if (isa<plan::BufferOp>(op))
    return llvm::any_of(op->getUsers(), isInUpdate);
  auto procedure = op->getParentOfType<plan::ProcedureOp>();
  return procedure && procedure.getKind() == plan::ProcedureKind::update;
}

// Returns whether a buffer holds whole gradients of a step, which the last backward scatters: nothing
// in the update touches it.
bool StageArena::isSumOfStep(plan::BufferOp op) const {
  auto binding = op.getBindingAs<plan::StateBindingAttr>();
  if (op.getSpace() != plan::Space::persistent || !binding ||
      binding.getRole() != graph::Role::accumulator)
    return false;
  auto state = SymbolTable::lookupNearestSymbolFrom<graph::StateOp>(stage->getParentOp(), binding.getState());
  return state && !state.getOf() && cast<plan::BufferType>(op.getType()).getTensor().getRank() > 0 &&
         llvm::none_of(op.getResult().getUsers(), [](Operation *user) { return isInUpdate(user); });
}

// Places the slots of each pool, pool after pool; returns the end.
int64_t StageArena::placePools(int64_t at) {
  for (int64_t pool = 0; pool < static_cast<int64_t>(stage.getPools().size()); ++pool) {
    int64_t stride = placeAll(plan::Space::slot, at, pool) - at;
    for (auto op : stage.getBody().getOps<plan::BufferOp>())
      if (!op.getParent() && op.getSpace() == plan::Space::slot &&
          op.getPool().value_or(0) == uint64_t(pool))
        op.setSlotStride(stride);
    at += stride * stage.getSlotsOf(pool);
  }
  return at;
}

std::vector<Scratch> StageArena::collectScratch() {
  std::vector<Scratch> list;
  DenseMap<Operation *, size_t> index;
  for (auto [p, procedure] : llvm::enumerate(procedures)) {
    int64_t position = -1, start = 0; // of a group, whose messages run at one time
    for (Operation &op : procedure.getBody().front()) {
      ++position;
      if (!op.hasAttr("grouped"))
        start = position;
      for (Value operand : op.getOperands()) {
        plan::BufferOp root = rootOf(operand).first;
        if (root.getSpace() != plan::Space::scratch)
          continue;
        auto [it, isNew] = index.insert({root, list.size()});
        if (isNew)
          list.push_back({root, align(cast<plan::BufferType>(root.getType()).getByteSize()), -1, {}});
        list[it->second].touches[p].add(start, orders[p].streamOf(start));
      }
    }
  }
  return list;
}

// Returns whether the two may hold a value at one time. In different procedures they never do:
// procedures run one after the other.
bool StageArena::interfere(const Scratch &a, const Scratch &b) const {
  return llvm::any_of(a.touches, [&](const auto &entry) {
    auto &[p, mine] = entry;
    auto other = b.touches.find(p);
    return other != b.touches.end() && !mine.endBefore(other->second, orders[p]) &&
           !other->second.endBefore(mine, orders[p]);
  });
}

// Returns the stream that alone touches a buffer; none if several do.
static std::optional<int64_t> onlyStreamOf(const Scratch &scratch) {
  std::optional<int64_t> own;
  for (const auto &[procedure, uses] : scratch.touches)
    for (auto [stream, first] : llvm::enumerate(uses.first)) {
      if (first < 0)
        continue;
      if (own && *own != static_cast<int64_t>(stream))
        return std::nullopt;
      own = stream;
    }
  return own;
}

// Places buffers largest first, each at the lowest offset from `at` on that is free of interfering ones;
// returns the end. `placed` are others that are there already, and then these too, by offset.
int64_t StageArena::pack(std::vector<Scratch *> &list, int64_t at, std::vector<Scratch *> &placed) const {
  llvm::stable_sort(list, [](Scratch *x, Scratch *y) { return x->bytes > y->bytes; });
  int64_t end = at;
  for (Scratch *scratch : list) {
    int64_t offset = at;
    for (Scratch *other : placed) {
      if (other->offset + other->bytes <= offset || !interfere(*other, *scratch))
        continue;
      if (other->offset >= offset + scratch->bytes)
        break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    scratch->offset = offset;
    LDBG() << "scratch " << scratch->root.getType() << " at " << offset;
    placed.insert(llvm::upper_bound(placed, scratch,
                                    [](Scratch *x, Scratch *y) { return x->offset < y->offset; }),
                  scratch);
    end = std::max(end, offset + scratch->bytes);
  }
  return end;
}

// Returns whether the update alone touches a buffer.
bool StageArena::isOfUpdate(const Scratch &scratch) const {
  return llvm::all_of(scratch.touches, [&](const auto &entry) {
    return plan::ProcedureOp(procedures[entry.first]).getKind() == plan::ProcedureKind::update;
  });
}

// Sorts the scratch buffers. One is in use within one execution of a procedure, from its first touch
// to the wait that orders its last one, unless another stream may touch it outside of that interval.
void StageArena::sortScratch() {
  for (Scratch &buffer : scratch) {
    bool inside = llvm::all_of(buffer.touches, [&](const auto &entry) {
      return entry.second.isInside(orders[entry.first]);
    });
    std::optional<int64_t> own = onlyStreamOf(buffer);
    (inside ? isOfUpdate(buffer) ? ofUpdate : shared : own ? lagging[*own] : alone).push_back(&buffer);
  }
}

// Places the scratch buffers that streams other than 0 touch outside of a procedure; returns the end.
// Of these only those share bytes that one stream alone touches: it runs in order.
int64_t StageArena::placeLagging(int64_t at) {
  for (Scratch *buffer : alone) {
    buffer->offset = at;
    at += buffer->bytes;
  }
  for (auto &[stream, list] : lagging) {
    std::vector<Scratch *> placed;
    at = pack(list, at, placed);
  }
  return at;
}

// Returns whether nothing touches slots any more when the update begins: it does not itself, and all
// touches have ended when stream 0 leaves their procedure.
bool StageArena::slotsEndBeforeUpdate() const {
  for (auto [given, order] : llvm::zip(procedures, orders)) {
    plan::ProcedureOp procedure = given;
    for (auto [position, op] : llvm::enumerate(procedure.getBody().front()))
      for (Value operand : op.getOperands())
        if (rootOf(operand).first.getSpace() == plan::Space::slot &&
            (!order.isInside(position) || procedure.getKind() == plan::ProcedureKind::update))
          return false;
  }
  return true;
}

LogicalResult StageArena::run() {
  // Erases buffers that no instruction uses (outputs that were not requested).
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(stage.getBody().front())))
    if (auto buffer = dyn_cast<plan::BufferOp>(op); buffer && buffer->use_empty() && !buffer.getBinding())
      buffer.erase();
  scratch = collectScratch();
  sortScratch();
  auto isPersistent = [](plan::BufferOp op) { return op.getSpace() == plan::Space::persistent; };
  int64_t persistent = place([&](plan::BufferOp op) { return isPersistent(op) && !isSumOfStep(op); }, 0);
  int64_t step = placeAll(plan::Space::step, persistent);
  int64_t lags = placeLagging(step), pools = placePools(lags);
  int64_t sums = place([&](plan::BufferOp op) { return isPersistent(op) && isSumOfStep(op); }, pools);
  std::vector<Scratch *> placed;
  int64_t end = pack(shared, sums, placed);
  // The update begins when all slots are free and the sums of gradients have been scattered, so its
  // own buffers may lie over them.
  end = std::max(end, pack(ofUpdate, slotsEndBeforeUpdate() ? lags : pools, placed));
  for (Scratch &buffer : scratch)
    buffer.root.setOffset(buffer.offset);
  // Every root has an offset by now, unless it is a scratch buffer that no instruction uses.
  for (auto op : stage.getBody().getOps<plan::BufferOp>())
    if (!op.getParent() && !op.getOffset())
      return op.emitOpError("is used by no procedure");
  LDBG() << "stage " << stage.getStage() << ": " << persistent << " bytes persistent, "
         << step - persistent << " a step, " << end - sums << " scratch, " << pools - lags << " in slots";
  stage.setArenaBytes(align(end));
  return success();
}

struct AssignArena : impl::AssignArenaBase<AssignArena> {
  void runOnOperation() override {
    for (auto stage : getOperation().getOps<plan::StageOp>())
      if (failed(StageArena(stage).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace llmc
