// Moves collectives to a stream of their own.
#include "passes/5-schedule/Passes.h"

#include "passes/5-schedule/Buffers.h"
#include "passes/5-schedule/Streams.h"

namespace llmc {
#define GEN_PASS_DEF_STREAMCOLLECTIVES
#include "passes/5-schedule/Passes.h.inc"

using namespace mlir;
namespace {

struct Bytes {
  Operation *root;
  int64_t low, high;
  bool overlaps(const Bytes &o) const { return root == o.root && low < o.high && o.low < high; }
};

Bytes bytesAt(Value buffer) {
  auto [root, low] = rootOf(buffer);
  return {root, low, low + bytesOf(buffer)};
}

// Represents a collective, or a message around a ring, in flight: stream 0 has not waited for it yet.
struct InFlightCollective {
  int64_t event; // recorded behind it
  SmallVector<Bytes> src, dst;
  plan::OriginAttr origin;
  bool isInside; // no other stream and no other procedure sees what it reads and writes
};

bool hasSpace(Value buffer, plan::Space space) { return rootOf(buffer).first.getSpace() == space; }

// Lists the instructions that go to other ranks together, of which `op` is the first: a collective, or a
// message and those in one group with it. Empty if it is none.
SmallVector<Operation *, 2> unitOf(Operation *op) {
  if (isa<plan::CollectiveOp>(op))
    return {op};
  SmallVector<Operation *, 2> unit;
  for (; op && isa<plan::SendOp, plan::RecvOp>(op) && op->hasAttr("grouped") == !unit.empty(); op = op->getNextNode())
    unit.push_back(op);
  return unit;
}

// Returns the buffers that an instruction reads, of those that go to other ranks.
ValueRange readBy(Operation *op) {
  if (isa<plan::RecvOp>(op))
    return {};
  return op->getOperands().take_front(isa<plan::CollectiveOp>(op) ? 1 : op->getNumOperands());
}

class Streamer {
public:
  Streamer(plan::ProcedureOp procedure, EventAllocator &events)
      : procedure(procedure), events(events), b(procedure.getContext()) {}

  unsigned run() {
    unsigned moved = 0;
    for (Operation &op : llvm::make_early_inc_range(procedure.getBody().front())) {
      if (op.getAttrOfType<IntegerAttr>("stream").getInt() != kCompute)
        continue;
      SmallVector<Operation *, 2> unit = unitOf(&op);
      SmallVector<Operation *, 2> all = unit.empty() ? SmallVector<Operation *, 2>{&op} : unit;
      size_t needed = 0; // flights, from the first on
      for (auto [i, flight] : llvm::enumerate(flights))
        for (Operation *part : all)
          if (isa<plan::RecordOp>(part) ? !flight.isInside : conflicts(*part, flight))
            needed = i + 1;
      join(&op, needed);
      if (!unit.empty()) {
        launch(unit);
        ++moved;
      }
    }
    join(nullptr, flights.size());
    return moved;
  }

private:
  // Returns whether `op` touches what the flight writes, or writes what it reads. A collective that
  // follows on the same stream is in order with it anyway, but its inputs are recorded on stream 0,
  // which must have waited for the flight.
  static bool conflicts(Operation &op, const InFlightCollective &flight) {
    auto touches = [&](ValueRange values, ArrayRef<Bytes> all) {
      return llvm::any_of(values, [&](Value value) {
        return llvm::any_of(all, [&](const Bytes &bytes) { return bytesAt(value).overlaps(bytes); });
      });
    };
    return touches(op.getOperands(), flight.dst) || touches(writtenBy(op), flight.src);
  }

  // Makes stream 0 wait, before `before` or at the end, for the first `count` flights: they end in
  // order, so one wait for the last of them is enough.
  void join(Operation *before, size_t count) {
    if (count == 0)
      return;
    if (before)
      b.setInsertionPoint(before);
    else
      b.setInsertionPointToEnd(&procedure.getBody().front());
    const InFlightCollective &last = flights[count - 1];
    plan::WaitOp::create(b, procedure.getLoc(), last.event, true, IntegerAttr(), kCompute,
                         last.origin);
    for (const InFlightCollective &flight : ArrayRef(flights).take_front(count))
      events.giveBack(flight.event);
    flights.erase(flights.begin(), flights.begin() + count);
  }

  void launch(ArrayRef<Operation *> unit) {
    Location loc = unit.front()->getLoc();
    auto origin = unit.front()->getAttrOfType<plan::OriginAttr>("origin");
    int64_t ready = events.borrow();
    b.setInsertionPoint(unit.front());
    plan::RecordOp::create(b, loc, ready, true, IntegerAttr(), kCompute, origin);
    plan::WaitOp::create(b, loc, ready, true, IntegerAttr(), kCollectives, origin);
    events.giveBack(ready);
    for (Operation *op : unit)
      op->setAttr("stream", b.getI64IntegerAttr(kCollectives));
    b.setInsertionPointAfter(unit.back());
    int64_t done = events.borrow();
    plan::RecordOp::create(b, loc, done, true, IntegerAttr(), kCollectives, origin);
    InFlightCollective flight{done, {}, {}, origin, /*isInside=*/true};
    for (Operation *op : unit) {
      for (Value src : readBy(op)) {
        flight.src.push_back(bytesAt(src));
        flight.isInside &= !hasSpace(src, plan::Space::slot);
      }
      for (Value dst : writtenBy(*op)) {
        flight.dst.push_back(bytesAt(dst));
        flight.isInside &= hasSpace(dst, plan::Space::scratch);
      }
    }
    flights.push_back(std::move(flight));
  }

  plan::ProcedureOp procedure;
  EventAllocator &events;
  OpBuilder b;
  SmallVector<InFlightCollective> flights;
};

struct StreamCollectives : impl::StreamCollectivesBase<StreamCollectives> {
  void runOnOperation() override {
    for (auto stage : getOperation().getOps<plan::StageOp>()) {
      EventAllocator events(stage);
      for (auto procedure : stage.getBody().getOps<plan::ProcedureOp>())
        numCollectives += Streamer(procedure, events).run();
    }
  }
};

} // namespace
} // namespace llmc
