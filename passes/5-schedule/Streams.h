// Defines the streams of a rank, and allocates the events that order them. Tests:
// test/passes/5-schedule/stream-collectives.mlir, build-table-messages.mlir.
#ifndef LLMC_PASSES_SCHEDULE_STREAMS_H
#define LLMC_PASSES_SCHEDULE_STREAMS_H

#include "dialects/plan/Plan.h"

namespace llmc {

// Lists the streams. What may wait for other ranks has a stream of its own: collectives between
// computations, reductions that overlap with them, and messages of both directions.
enum Stream : int64_t { kCompute = 0, kCollectives = 1, kReductions = 2, kMessages = 3 };

// Returns the name of a procedure of a chunk: "forward", of the second chunk "forward_1".
inline std::string getProcedureName(llvm::StringRef kind, int64_t chunk) {
  return chunk ? (kind + "_" + llvm::Twine(chunk)).str() : kind.str();
}
// Returns the name of the exchange for a message that the procedure of that direction makes or
// needs: "send_forward", "recv_backward", ...
inline llvm::StringRef getExchangeName(bool send, bool forward) {
  return send ? forward ? "send_forward" : "send_backward"
              : forward ? "recv_forward" : "recv_backward";
}

// Allocates the events of a stage. Each pass that adds events makes an allocator, which begins
// after the events that the stage has.
class EventAllocator {
public:
  explicit EventAllocator(plan::StageOp stage) {
    stage.walk([&](mlir::Operation *op) {
      if (auto event = op->getAttrOfType<mlir::IntegerAttr>("event"))
        next = std::max(next, event.getInt() + 1);
    });
  }
  // Returns a new event.
  int64_t take() { return next++; }
  // Returns an event that is free at this point of the issue order. A wait is bound to the latest
  // record issued before it, so an event is free again after its last wait.
  int64_t borrow() { return idle.empty() ? take() : idle.pop_back_val(); }
  void giveBack(int64_t event) { idle.push_back(event); }

private:
  int64_t next = 0;
  llvm::SmallVector<int64_t> idle;
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_STREAMS_H
