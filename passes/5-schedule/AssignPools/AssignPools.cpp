// Gives buffers of a micro-batch a slot for as long as they live.
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/Streams.h"

#include "llvm/ADT/MapVector.h"

namespace llmc {
#define GEN_PASS_DEF_ASSIGNPOOLS
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

// Lists lifetimes: from forward to weight gradients, to backward, from backward on.
enum Lifetime : unsigned { kWhole, kToBackward, kFromBackward };

// Lists the steps of a micro-batch in which a buffer is touched.
enum Touch : unsigned { kForward = 1, kBackward = 2, kWeight = 4 };

class ChunkPools {
public:
  ChunkPools(plan::StageOp stage, int64_t chunk) : stage(stage), chunk(chunk) {
    auto find = [&](StringRef name) {
      return plan::StageOp(stage).lookupSymbol<plan::ProcedureOp>(getProcedureName(name, chunk));
    };
    steps = {{find("forward"), kForward}, {find("backward"), kBackward}, {find("weight"), kWeight}};
    for (bool forward : {true, false})
      for (bool send : {true, false})
        if (plan::ProcedureOp exchange = find(getExchangeName(send, forward)))
          exchanges.push_back({exchange, forward ? kForward : kBackward});
  }

  // Returns the number of buffers that got another pool.
  int64_t run() {
    if (!llvm::all_of(steps, [](auto &step) { return bool(step.first); }))
      return 0;
    findLifetimes();
    joinMessages();
    int64_t moved = movePools();
    setLanes();
    setEvents();
    return moved;
  }

private:
  using Procedures = SmallVector<std::pair<plan::ProcedureOp, Touch>>;

  void forEachRoot(plan::ProcedureOp procedure, llvm::function_ref<void(plan::BufferOp)> visit) {
    for (Operation &op : procedure.getBody().front())
      for (Value operand : op.getOperands())
        if (plan::BufferOp root = rootOf(operand).first;
            root && root.getSpace() == plan::Space::slot && int64_t(root.getPool().value_or(0)) == chunk)
          visit(root);
  }

  void findLifetimes() {
    llvm::MapVector<Operation *, unsigned> touches;
    for (const Procedures &list : {steps, exchanges})
      for (auto [procedure, touch] : list)
        forEachRoot(procedure, [&, touch = touch](plan::BufferOp root) { touches[root] |= touch; });
    for (auto [root, touched] : touches)
      lifetimes[root] = !(touched & kWeight)   ? kToBackward
                        : touched & kForward ? kWhole
                                             : kFromBackward;
  }

  // Puts all parts of a message into one pool: where they differ, into the one that has all.
  void joinMessages() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto [exchange, touch] : exchanges) {
        std::optional<Lifetime> own;
        bool differ = false;
        forEachRoot(exchange, [&](plan::BufferOp root) {
          differ |= own && *own != lifetimes[root];
          own = lifetimes[root];
        });
        if (differ)
          forEachRoot(exchange, [&](plan::BufferOp root) {
            changed |= lifetimes[root] != kWhole;
            lifetimes[root] = kWhole;
          });
      }
    }
  }

  int64_t movePools() {
    Builder b(stage.getContext());
    SmallVector<Attribute> list(stage.getPools().begin(), stage.getPools().end());
    poolOf = {chunk, -1, -1};
    int64_t moved = 0;
    for (auto [root, lifetime] : lifetimes) {
      if (lifetime == kWhole)
        continue;
      if (poolOf[lifetime] < 0) {
        poolOf[lifetime] = list.size();
        list.push_back(plan::PoolAttr::get(b.getContext(), chunk, 1));
      }
      cast<plan::BufferOp>(root).setPoolAttr(b.getI64IntegerAttr(poolOf[lifetime]));
      ++moved;
    }
    stage.setPoolsAttr(b.getArrayAttr(list));
    return moved;
  }

  // Lists the pools of each procedure, the main one first.
  void setLanes() {
    Builder b(stage.getContext());
    for (auto [procedure, touch] : steps) {
      SmallVector<int64_t> lanes = {chunk};
      if (touch != kWeight && poolOf[kToBackward] >= 0)
        lanes.push_back(poolOf[kToBackward]);
      if (touch != kForward && poolOf[kFromBackward] >= 0)
        lanes.push_back(poolOf[kFromBackward]);
      procedure.setLanesAttr(b.getDenseI64ArrayAttr(lanes));
    }
    for (auto [exchange, touch] : exchanges)
      exchange.setLanesAttr(b.getDenseI64ArrayAttr({poolOf[lifetimeOf(exchange)]}));
  }
  Lifetime lifetimeOf(plan::ProcedureOp exchange) {
    Lifetime lifetime = kWhole;
    // Asks by root: its pool has changed by now.
    for (Operation &op : exchange.getBody().front())
      for (Value operand : op.getOperands())
        lifetime = lifetimes.lookup(rootOf(operand).first);
    return lifetime;
  }

  // Returns the event that a procedure of computation records when it has run; -1 if it has none.
  static int64_t doneOf(plan::ProcedureOp procedure) {
    for (auto record : procedure.getBody().getOps<plan::RecordOp>())
      if (record.getStream() == kCompute && !record.getWholeStep())
        return record.getEvent();
    return -1;
  }

  // Moves the events to the pools of the messages. A slot that ends with backward is free after it.
  void setEvents() {
    int64_t afterBackward = doneOf(steps[1].first), afterWeight = doneOf(steps[2].first);
    std::map<int64_t, std::set<int64_t>> waiting, recording; // event -> pools
    for (auto [exchange, touch] : exchanges) {
      int64_t pool = poolOf[lifetimeOf(exchange)];
      for (Operation &op : exchange.getBody().front()) {
        auto wait = dyn_cast<plan::WaitOp>(op);
        if (wait && int64_t(wait.getEvent()) == afterWeight && lifetimeOf(exchange) == kToBackward)
          wait.setEvent(afterBackward);
        if (wait)
          waiting[wait.getEvent()].insert(pool);
        if (auto record = dyn_cast<plan::RecordOp>(op))
          recording[record.getEvent()].insert(pool);
      }
    }
    for (auto [procedure, touch] : steps)
      for (Operation &op : llvm::make_early_inc_range(procedure.getBody().front())) {
        auto wait = dyn_cast<plan::WaitOp>(op);
        if (wait && !wait.getWholeStep())
          for (int64_t pool : recording[wait.getEvent()])
            setLane(wait, procedure, pool);
        if (auto record = dyn_cast<plan::RecordOp>(op); record && !record.getWholeStep())
          recordIn(record, procedure, waiting[record.getEvent()]);
      }
  }
  static void setLane(Operation *op, plan::ProcedureOp procedure, int64_t pool) {
    ArrayRef<int64_t> lanes = *procedure.getLanes();
    if (int64_t lane = llvm::find(lanes, pool) - lanes.begin())
      op->setAttr("lane", Builder(op->getContext()).getI64IntegerAttr(lane));
  }
  static void recordIn(plan::RecordOp record, plan::ProcedureOp procedure, const std::set<int64_t> &pools) {
    OpBuilder b(record);
    for (int64_t pool : pools)
      setLane(b.clone(*record), procedure, pool);
    record.erase();
  }

  plan::StageOp stage;
  int64_t chunk;
  Procedures steps, exchanges;
  llvm::MapVector<Operation *, Lifetime> lifetimes; // of roots
  std::array<int64_t, 3> poolOf = {};               // by lifetime; -1: none
};

struct AssignPools : impl::AssignPoolsBase<AssignPools> {
  void runOnOperation() override {
    for (auto stage : getOperation().getOps<plan::StageOp>())
      for (int64_t chunk = 0, count = stage.getChunks().size(); chunk < count; ++chunk)
        numMoved += ChunkPools(stage, chunk).run();
  }
};

} // namespace
} // namespace llmc
