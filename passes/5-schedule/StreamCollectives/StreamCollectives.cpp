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

// Represents a collective in flight: stream 0 has not waited for it yet.
struct InFlightCollective {
  int64_t event; // recorded behind it
  Bytes src, dst;
  plan::OriginAttr origin;
};

class Streamer {
public:
  Streamer(plan::ProcedureOp procedure, EventAllocator &events)
      : procedure(procedure), events(events), b(procedure.getContext()) {}

  unsigned run() {
    unsigned moved = 0;
    for (Operation &op : llvm::make_early_inc_range(procedure.getBody().front())) {
      if (op.getAttrOfType<IntegerAttr>("stream").getInt() != kCompute)
        continue;
      if (isa<plan::RecordOp>(op) || llvm::any_of(flights, [&](InFlightCollective &f) { return conflicts(op, f); }))
        join(&op);
      if (auto collective = dyn_cast<plan::CollectiveOp>(op)) {
        launch(collective);
        ++moved;
      }
    }
    join(nullptr);
    return moved;
  }

private:
  // Returns whether `op` touches what the flight writes, or writes what it reads. A collective that
  // follows on the same stream is in order with it anyway, but its inputs are recorded on stream 0,
  // which must have waited for the flight.
  static bool conflicts(Operation &op, const InFlightCollective &flight) {
    auto touches = [&](ValueRange values, const Bytes &bytes) {
      return llvm::any_of(values, [&](Value value) { return bytesAt(value).overlaps(bytes); });
    };
    return touches(op.getOperands(), flight.dst) || touches(writtenBy(op), flight.src);
  }

  // Makes stream 0 wait, before `before` or at the end, for all flights: they end in order, so one
  // wait for the last of them is enough.
  void join(Operation *before) {
    if (flights.empty())
      return;
    if (before)
      b.setInsertionPoint(before);
    else
      b.setInsertionPointToEnd(&procedure.getBody().front());
    plan::WaitOp::create(b, procedure.getLoc(), flights.back().event, true, IntegerAttr(), kCompute,
                         flights.back().origin);
    for (InFlightCollective &flight : flights)
      events.giveBack(flight.event);
    flights.clear();
  }

  void launch(plan::CollectiveOp op) {
    Location loc = op.getLoc();
    plan::OriginAttr origin = op.getOriginAttr();
    int64_t ready = events.borrow();
    b.setInsertionPoint(op);
    plan::RecordOp::create(b, loc, ready, true, IntegerAttr(), kCompute, origin);
    plan::WaitOp::create(b, loc, ready, true, IntegerAttr(), kCollectives, origin);
    events.giveBack(ready);
    op.setStream(kCollectives);
    b.setInsertionPointAfter(op);
    int64_t done = events.borrow();
    plan::RecordOp::create(b, loc, done, true, IntegerAttr(), kCollectives, origin);
    flights.push_back({done, bytesAt(op.getSrc()), bytesAt(op.getDst()), origin});
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
