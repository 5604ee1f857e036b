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
  int64_t placePools(int64_t at);
  std::vector<Scratch> collectScratch();
  int64_t placeScratch(int64_t at);
  bool interfere(const Scratch &a, const Scratch &b) const;
  int64_t pack(std::vector<Scratch *> &list, int64_t at) const;

  plan::StageOp stage;
  SmallVector<plan::ProcedureOp> procedures;
  std::vector<ProcedureOrder> orders;
};

// Places the buffers without parent of one space (and pool) one after the other; returns the end.
int64_t StageArena::placeAll(plan::Space space, int64_t at, int64_t pool) {
  for (auto op : stage.getBody().getOps<plan::BufferOp>()) {
    if (op.getParent() || op.getSpace() != space || op.getPool().value_or(0) != uint64_t(pool))
      continue;
    op.setOffset(at);
    at += align(cast<plan::BufferType>(op.getType()).getByteSize());
  }
  return at;
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
    int64_t position = -1;
    for (Operation &op : procedure.getBody().front()) {
      ++position;
      for (Value operand : op.getOperands()) {
        plan::BufferOp root = rootOf(operand).first;
        if (root.getSpace() != plan::Space::scratch)
          continue;
        auto [it, isNew] = index.insert({root, list.size()});
        if (isNew)
          list.push_back({root, align(cast<plan::BufferType>(root.getType()).getByteSize()), -1, {}});
        list[it->second].touches[p].add(position, orders[p].streamOf(position));
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

// Places buffers largest first, each at the lowest offset free of interfering ones; returns the
// end.
int64_t StageArena::pack(std::vector<Scratch *> &list, int64_t at) const {
  llvm::stable_sort(list, [](Scratch *x, Scratch *y) { return x->bytes > y->bytes; });
  int64_t end = at;
  std::vector<Scratch *> placed; // by offset
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

// Places the scratch buffers; returns the end. A buffer is in use within one execution of a
// procedure, from its first touch to the wait that orders its last one. Where another stream may
// touch buffers outside of that interval, only those share bytes that this stream alone touches: it
// runs in order.
int64_t StageArena::placeScratch(int64_t at) {
  std::vector<Scratch> all = collectScratch();
  std::vector<Scratch *> shared;
  std::map<int64_t, std::vector<Scratch *>> lagging; // by the stream that alone touches them
  for (Scratch &scratch : all) {
    bool inside = llvm::all_of(scratch.touches, [&](const auto &entry) {
      return entry.second.isInside(orders[entry.first]);
    });
    if (inside) {
      shared.push_back(&scratch);
      continue;
    }
    if (std::optional<int64_t> own = onlyStreamOf(scratch)) {
      lagging[*own].push_back(&scratch);
      continue;
    }
    scratch.offset = at;
    at += scratch.bytes;
  }
  for (auto &[stream, list] : lagging)
    at = pack(list, at);
  int64_t end = pack(shared, at);
  for (Scratch &scratch : all)
    scratch.root.setOffset(scratch.offset);
  return end;
}

LogicalResult StageArena::run() {
  // Erases buffers that no instruction uses (outputs that were not requested).
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(stage.getBody().front())))
    if (auto buffer = dyn_cast<plan::BufferOp>(op); buffer && buffer->use_empty() && !buffer.getBinding())
      buffer.erase();
  int64_t persistent = placeAll(plan::Space::persistent, 0);
  int64_t step = placeAll(plan::Space::step, persistent);
  int64_t pools = placePools(step), scratch = placeScratch(pools);
  // Every root has an offset by now, unless it is a scratch buffer that no instruction uses.
  for (auto op : stage.getBody().getOps<plan::BufferOp>())
    if (!op.getParent() && !op.getOffset())
      return op.emitOpError("is used by no procedure");
  LDBG() << "stage " << stage.getStage() << ": " << persistent << " bytes persistent, "
         << step - persistent << " a step, " << scratch - pools << " scratch, "
         << pools - step << " in slots";
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
