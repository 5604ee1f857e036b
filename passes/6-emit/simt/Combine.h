// Combines sums and maxima over the threads of a row. Tests:
// test/passes/6-emit/map-to-threads.mlir, ReductionCases.cpp.
#ifndef LLMC_PASSES_EMIT_SIMT_COMBINE_H
#define LLMC_PASSES_EMIT_SIMT_COMBINE_H

#include "passes/6-emit/simt/Steps.h"

namespace llmc::emit {

// Combines within a warp by shuffles and among warps through shared memory, in an order that the
// number of threads alone decides. Every thread gets the same bits.
class Combiner {
public:
  explicit Combiner(mlir::func::FuncOp kernel);

  // Combines the result of `op`, the partial value of thread `id` of `size`: its users get the
  // total instead.
  void combine(mlir::Operation *op, int64_t size, Value id);
  // Combines the results of `loop`, the partial values of one of `groups` groups of `columns`
  // threads: their users get the total of the thread's `column`.
  void combineGroups(mlir::scf::ForOp loop, int64_t groups, Value id, Value column,
                     int64_t columns);
  int64_t sharedBytes() const { return (slots + areaSlots) * kSlotBytes; }

private:
  static constexpr int64_t kSlotBytes = 8;
  mlir::func::FuncOp kernel;
  mlir::OpBuilder b;
  mlir::Location loc;
  int64_t slots = 0, areaSlots = 0; // in use, of shared memory; all loops share the area
  mlir::Operation *shared = nullptr, *area = nullptr;
  bool isMax = false;
  llvm::SmallPtrSet<mlir::Operation *, 32> made;

  Value keep(Value value);
  Value constant(int64_t value);
  Value two(Value x, Value y);
  Value fromLane(Value x, int64_t distance);
  Value shuffle32(Value x, int64_t distance);
  mlir::Operation *makeShared(llvm::StringRef suffix, int64_t alignment);
  Value overWarps(Value part, int64_t warps, Value id, bool isAlone);
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_SIMT_COMBINE_H
