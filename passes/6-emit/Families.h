// The families of kernels. Each emits the body of one launch into `kernel`,
// sets its rows and extents, and fails with a diagnostic on what it cannot do.
// Buffers are the launch's reads, then its writes.
#ifndef LLMC_PASSES_EMIT_FAMILIES_H
#define LLMC_PASSES_EMIT_FAMILIES_H

#include "passes/6-emit/kernel/Kernel.h"

namespace llmc::emit {

// What a launch is made of, whether it stands in a plan or in a test.
struct LaunchBody {
  mlir::Block &block;
  unsigned reads; // leading block arguments that are buffers
  mlir::Operation::operand_range results() const { return block.getTerminator()->getOperands(); }
};

// Groups: expressions over one loop nest (Group.h).
mlir::LogicalResult emitElementwise(Kernel &kernel, LaunchBody body);
mlir::LogicalResult emitReduction(Kernel &kernel, LaunchBody body);

// One op with an own kernel: the entry, or null.
using SpecialEntry = mlir::LogicalResult (*)(Kernel &kernel, LaunchBody body, mlir::Operation *op);
SpecialEntry lookupSpecial(mlir::Operation *op);
mlir::LogicalResult emitGather(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitScatterAdd(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitScatterInto(Kernel &kernel, LaunchBody body, mlir::Operation *scatter,
                                    mlir::Operation *add);
mlir::LogicalResult emitTakeAlong(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitCumsum(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitConcat(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitPad(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitReshape(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitAttention(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitAttentionGrad(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitRotary(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitMatmulOp(Kernel &kernel, LaunchBody body, mlir::Operation *op);

// Any group: picks the family.
mlir::LogicalResult emitLaunch(Kernel &kernel, LaunchBody body);

// Which dims lie next to each other in memory, and so what vectors run along.
enum class MatmulForm {
  Columns, // n of B and C
  Dots,    // k of A and B
  Strided, // neither
};

// C[b, m, n] (+)= sum over k of A[b, m, k] B[b, k, n]; strides in elements in
// that order of dims.
struct MatmulShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  std::array<int64_t, 3> a{}, b{}, c{};
  bool accumulate = false;

  MatmulForm form() const;
  // batch, m, n, k, then the strides of A, B and C: what the kernel takes.
  llvm::SmallVector<int64_t> scalars() const;
};
// The kernel of every shape of `form`: buffers A, B and C (the third), scalars as
// above from `firstScalar` on; rows are batch * m.
void emitMatmul(Kernel &kernel, MatmulForm form, bool accumulate, unsigned aBuffer = 0,
                unsigned bBuffer = 1, unsigned firstScalar = 0);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_FAMILIES_H
