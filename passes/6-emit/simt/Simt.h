// Turns a kernel as its emitter wrote it for kCudaTarget into one that many threads run. Its
// tests are test/passes/6-emit/map-to-threads*.mlir and the kernel cases, which run with each
// thread as a fiber (test/passes/6-emit/Threads.h).
#ifndef LLMC_PASSES_EMIT_SIMT_SIMT_H
#define LLMC_PASSES_EMIT_SIMT_SIMT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::emit {

// Describes how to launch a kernel of threads: the attribute `llmc.launch` of its function, a
// dictionary of i64 by these names.
//
// A launch over the rows [begin, end) has (end - begin) * points_per_row points. Any number of
// blocks computes the same bits; the number worth launching is
//   min(ceil(points / points_per_block), blocks_per_sm * multiprocessors), at least 1.
struct ThreadLaunch {
  int64_t threads = 0;        // of a block, along x: a multiple of 32
  int64_t pointsPerRow = 1;   // parts that a row can be cut into
  int64_t pointsPerBlock = 1; // the smallest part worth a block
  int64_t blocksPerSm = 1;    // more bring nothing
  int64_t beginMultiple = 1;  // `begin` must be a multiple of it
  int64_t sharedBytes = 0;    // static: the kernel declares them itself
  // Counts the bytes that one launch needs for itself, passed as one more pointer behind the
  // buffers if there are any: blocks leave parts of a sum there. The first kScratchCount bytes
  // are 0 when a launch begins, and again when it ends.
  int64_t scratchBytes = 0;

  void writeTo(mlir::func::FuncOp kernel) const;
  // Returns what `kernel` records; fails with a diagnostic if a field is missing.
  static mlir::FailureOr<ThreadLaunch> of(mlir::Operation *kernel);
};
inline constexpr llvm::StringLiteral kLaunch = "llmc.launch";
inline constexpr int64_t kScratchCount = 16;

// Turns `(buffers, scalars, begin, end)` with loops into a function of one thread,
//   (buffer !llvm.ptr<1> ..., [scratch !llvm.ptr<1>,] scalar i64 ..., begin i64, end i64):
// rows are distributed over blocks, loops over elements over the threads of a block, and all
// threads do the rest, whose stores one of them does. Buffers are aligned to 16 bytes and may be
// the same where the launch allows it. Threads are gpu.thread_id x, blocks gpu.block_id x of
// gpu.grid_dim x; what they share are globals of address space 3. Fails with a diagnostic on a
// function that was not emitted for threads, and on one whose stack arrays are read by other
// iterations than those that wrote them.
mlir::LogicalResult mapToThreads(mlir::func::FuncOp kernel);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_SIMT_SIMT_H
