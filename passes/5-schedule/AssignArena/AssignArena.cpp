// Gives every buffer its bytes in one static arena.
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/Buffers.h"

namespace llmc {
#define GEN_PASS_DEF_ASSIGNARENA
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// Cache line, and more than any vector register.
constexpr int64_t alignment = 64;
int64_t align(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

struct Lifetime {
  plan::BufferOp root;
  int64_t bytes, first, last, offset = -1;
};

class StageArena {
public:
  explicit StageArena(plan::StageOp stage) : stage(stage), b(stage.getContext()) {}
  LogicalResult run();

private:
  int64_t placeAll(plan::Space space, int64_t at);
  int64_t placeScratch(int64_t at);
  int64_t pack(std::vector<Lifetime> &lifetimes, int64_t at);

  plan::StageOp stage;
  OpBuilder b;
  int64_t slotBytes = 0;
};

// Buffers without parent of one space, one after the other; returns the end.
int64_t StageArena::placeAll(plan::Space space, int64_t at) {
  for (auto op : stage.getBody().getOps<plan::BufferOp>()) {
    if (op.getParent() || op.getSpace() != space)
      continue;
    op.setOffset(at);
    at += align(cast<plan::BufferType>(op.getType()).getByteSize());
  }
  return at;
}

// Largest first, each at the lowest offset where no overlapping lifetime is.
int64_t StageArena::pack(std::vector<Lifetime> &lifetimes, int64_t at) {
  llvm::stable_sort(lifetimes, [](const Lifetime &x, const Lifetime &y) { return x.bytes > y.bytes; });
  int64_t end = at;
  std::vector<Lifetime *> placed; // by offset
  for (Lifetime &life : lifetimes) {
    int64_t offset = at;
    for (Lifetime *other : placed) {
      if (other->last < life.first || life.last < other->first)
        continue;
      if (other->offset >= offset + life.bytes)
        break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    life.offset = offset;
    placed.insert(llvm::upper_bound(placed, &life,
                                    [](Lifetime *x, Lifetime *y) { return x->offset < y->offset; }),
                  &life);
    end = std::max(end, offset + life.bytes);
  }
  return end;
}

// A scratch buffer lives inside one procedure, from its first to its last mention.
int64_t StageArena::placeScratch(int64_t at) {
  int64_t end = at;
  DenseMap<Operation *, int64_t> known;
  for (auto procedure : stage.getBody().getOps<plan::ProcedureOp>()) {
    std::vector<Lifetime> lifetimes;
    DenseMap<Operation *, size_t> index;
    int64_t position = 0;
    for (Operation &op : procedure.getBody().front()) {
      ++position;
      for (Value operand : op.getOperands()) {
        plan::BufferOp root = rootOf(operand).first;
        if (root.getSpace() != plan::Space::scratch)
          continue;
        auto [it, isNew] = index.insert({root, lifetimes.size()});
        if (isNew)
          lifetimes.push_back({root, align(cast<plan::BufferType>(root.getType()).getByteSize()),
                               position, position});
        lifetimes[it->second].last = position;
      }
    }
    // backward_last is a copy of backward over the same buffers: their places
    // serve both, because nothing was inserted that reads scratch.
    bool placedBefore = !lifetimes.empty() && llvm::all_of(lifetimes, [](Lifetime &life) {
      return life.root.getOffset().has_value();
    });
    if (placedBefore)
      continue;
    end = std::max(end, pack(lifetimes, at));
    for (Lifetime &life : lifetimes)
      life.root.setOffset(life.offset);
  }
  return end;
}

LogicalResult StageArena::run() {
  // Buffers that no instruction mentions (outputs nobody asked for) go first.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(stage.getBody().front())))
    if (auto buffer = dyn_cast<plan::BufferOp>(op); buffer && buffer->use_empty() && !buffer.getBinding())
      buffer.erase();
  int64_t persistent = placeAll(plan::Space::persistent, 0);
  int64_t step = placeAll(plan::Space::step, persistent);
  int64_t slot = placeAll(plan::Space::slot, step);
  slotBytes = slot - step;
  int64_t scratch = placeScratch(step + slotBytes * stage.getSlots());
  // Scratch that no procedure mentions is never touched; it still needs an offset.
  for (auto op : stage.getBody().getOps<plan::BufferOp>())
    if (!op.getParent() && !op.getOffset())
      return op.emitError("is used by no procedure");
  for (auto op : stage.getBody().getOps<plan::BufferOp>())
    if (!op.getParent() && op.getSpace() == plan::Space::slot)
      op.setSlotStride(slotBytes);
  stage.setArenaBytes(align(scratch));
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
