// The streams of a rank, and the events that order them.
#ifndef LLMC_PASSES_SCHEDULE_STREAMS_H
#define LLMC_PASSES_SCHEDULE_STREAMS_H

#include "dialects/plan/Plan.h"

namespace llmc {

// What may wait for other ranks has a queue of its own: collectives that stand between
// computations, reductions that run beside them, and messages of both directions.
enum Stream : int64_t { kCompute = 0, kCollectives = 1, kReductions = 2, kMessages = 3 };

// The name of a procedure of a chunk: "forward", of the second chunk "forward_1".
inline std::string getProcedureName(llvm::StringRef kind, int64_t chunk) {
  return chunk ? (kind + "_" + llvm::Twine(chunk)).str() : kind.str();
}
// "send_forward", "recv_backward", ...: the exchange of a message that the procedure of
// that direction makes or needs.
inline llvm::StringRef getExchangeName(bool send, bool forward) {
  return send ? forward ? "send_forward" : "send_backward"
              : forward ? "recv_forward" : "recv_backward";
}

// Hands out the events of a stage. A pass that adds events makes one; it begins behind
// those that are there.
class EventAllocator {
public:
  explicit EventAllocator(plan::StageOp stage) {
    stage.walk([&](mlir::Operation *op) {
      if (auto event = op->getAttrOfType<mlir::IntegerAttr>("event"))
        next = std::max(next, event.getInt() + 1);
    });
  }
  // Returns an event that nobody else has.
  int64_t take() { return next++; }
  // Returns an event that is free at this place of the issue order. A wait is bound to the
  // latest record issued before it, so that an event is free again behind its last wait.
  int64_t borrow() { return idle.empty() ? take() : idle.pop_back_val(); }
  void giveBack(int64_t event) { idle.push_back(event); }

private:
  int64_t next = 0;
  llvm::SmallVector<int64_t> idle;
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_STREAMS_H
