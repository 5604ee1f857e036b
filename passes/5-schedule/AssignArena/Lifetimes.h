// Computes when the bytes of a scratch buffer are in use, from the happens-before order of
// instructions. Tests: test/passes/5-schedule/ArenaTest.cpp, assign-arena.mlir.
#ifndef LLMC_PASSES_SCHEDULE_ASSIGNARENA_LIFETIMES_H
#define LLMC_PASSES_SCHEDULE_ASSIGNARENA_LIFETIMES_H

#include "dialects/plan/Plan.h"

namespace llmc {

// Holds the happens-before order of the instructions of one procedure: those of a stream run one
// after the other, and a wait runs after the latest record of its event that is issued before it.
// Stream 0 ends each procedure before it begins the next; other streams may lag behind it.
class ProcedureOrder {
public:
  explicit ProcedureOrder(plan::ProcedureOp procedure);

  int64_t size() const { return clocks.size(); }
  int64_t streamOf(int64_t instruction) const { return streams[instruction]; }
  // Returns whether instruction `a` has always ended when `b` begins.
  bool isBefore(int64_t a, int64_t b) const { return clocks[b][streams[a]] > a; }
  // Returns whether `a` runs while stream 0 is in this procedure: `a` waits for stream 0 to come
  // here from earlier procedures (or is on stream 0), and stream 0 waits for `a` before it goes on.
  bool isInside(int64_t a) const {
    return (streams[a] == 0 || clocks[a][0] > 0) && end[streams[a]] > a;
  }

private:
  using Clock = llvm::SmallVector<int64_t, 4>; // per stream: instructions [0, n) have ended
  std::vector<int64_t> streams;
  std::vector<Clock> clocks; // when the instruction begins
  Clock end;                 // when stream 0 leaves
};

// Records which instructions of one procedure touch a scratch buffer.
struct BufferUses {
  // Holds per stream the first and the last instruction that touches it, or -1.
  llvm::SmallVector<int64_t, 4> first, last;

  void add(int64_t instruction, int64_t stream);
  // Returns whether every touch has ended before each of `other` begins.
  bool endBefore(const BufferUses &other, const ProcedureOrder &order) const;
  // Returns whether every touch is inside, as ProcedureOrder::isInside() defines it.
  bool isInside(const ProcedureOrder &order) const;
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_ASSIGNARENA_LIFETIMES_H
