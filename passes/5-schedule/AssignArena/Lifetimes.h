// When the bytes of a scratch buffer are in use, from what happens before what.
#ifndef LLMC_PASSES_SCHEDULE_ASSIGNARENA_LIFETIMES_H
#define LLMC_PASSES_SCHEDULE_ASSIGNARENA_LIFETIMES_H

#include "dialects/plan/Plan.h"

namespace llmc {

// Order of the instructions of one procedure: those of a stream run one after the other,
// a wait runs after the latest record of its event that is issued before it. What
// procedures issued before did on stream 0 is done before what stream 0 does here.
class ProcedureOrder {
public:
  explicit ProcedureOrder(plan::ProcedureOp procedure);

  int64_t size() const { return clocks.size(); }
  int64_t streamOf(int64_t instruction) const { return streams[instruction]; }
  // Has instruction `a` ended whenever `b` begins?
  bool isBefore(int64_t a, int64_t b) const { return clocks[b][streams[a]] > a; }
  // Do all instructions of stream 0 before this procedure end before `a` begins, and does `a`
  // end before stream 0 leaves the procedure?
  bool isInside(int64_t a) const {
    return (streams[a] == 0 || clocks[a][0] > 0) && end[streams[a]] > a;
  }

private:
  using Clock = llvm::SmallVector<int64_t, 4>; // per stream: instructions [0, n) have ended
  std::vector<int64_t> streams;
  std::vector<Clock> clocks; // when the instruction begins
  Clock end;                 // when stream 0 leaves
};

// The instructions of one procedure that touch a scratch buffer.
struct Touches {
  // By stream: the first and the last instruction, or -1.
  llvm::SmallVector<int64_t, 4> first, last;

  void add(int64_t instruction, int64_t stream);
  // Does every touch end before each of `other` begins?
  bool endBefore(const Touches &other, const ProcedureOrder &order) const;
  bool isInside(const ProcedureOrder &order) const;
};

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_ASSIGNARENA_LIFETIMES_H
