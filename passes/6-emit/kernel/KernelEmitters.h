// Declares the emitters of kernels, one per family of launches. Each emits the body of one
// launch into `kernel`, sets its rows and extents, and fails with a diagnostic on what it cannot
// compile. Buffers are the launch's reads, then its writes. The tests are the random cases of
// test/passes/6-emit.
#ifndef LLMC_PASSES_EMIT_KERNEL_KERNELEMITTERS_H
#define LLMC_PASSES_EMIT_KERNEL_KERNELEMITTERS_H

#include "passes/6-emit/kernel/Kernel.h"

namespace llmc::emit {

// Refers to the ops of one launch, which may be part of a plan or of a test.
struct LaunchBody {
  mlir::Block &block;
  unsigned reads; // leading block arguments that are buffers
  mlir::Operation::operand_range results() const { return block.getTerminator()->getOperands(); }
};

// Emits a group as expressions over one loop nest (group/Group.h): emitElementwise() one without
// reductions, emitReduction() one with at least one.
mlir::LogicalResult emitElementwise(Kernel &kernel, LaunchBody body);
mlir::LogicalResult emitReduction(Kernel &kernel, LaunchBody body);

// Represents the emitter of an op that has a kernel of its own; lookupOpEmitter() returns it, or
// null. Such an op reads its launch's buffers directly and is all that the launch writes.
using OpEmitter = mlir::LogicalResult (*)(Kernel &kernel, LaunchBody body, mlir::Operation *op);
OpEmitter lookupOpEmitter(mlir::Operation *op);
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
mlir::LogicalResult emitRoute(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitLimitRoutes(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitSortRoutes(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitArrivedRoutes(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitCountSources(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitPackRows(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitUnpackRows(Kernel &kernel, LaunchBody body, mlir::Operation *op);
mlir::LogicalResult emitMatmulOp(Kernel &kernel, LaunchBody body, mlir::Operation *op);

// Emits any launch: picks the family. For threads it also records how many buffers and scalars
// the function takes, and leaves matrix products and attention to libraries.
mlir::LogicalResult emitLaunch(Kernel &kernel, LaunchBody body);

// Distinguishes products by the dim that is contiguous in memory, along which vectors run.
enum class MatmulForm {
  Columns, // n of B and C
  Dots,    // k of A and B
  Strided, // neither
};

// Describes C[b, m, n] (+)= sum over k of A[b, m, k] B[b, k, n]. Strides are in elements, in
// that order of dims.
struct MatmulShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  std::array<int64_t, 3> a{}, b{}, c{};
  bool accumulate = false;

  MatmulForm form() const;
  // Returns what the kernel takes as scalars: batch, m, n, k, then the strides of A, B and C.
  llvm::SmallVector<int64_t> scalars() const;
};
// Holds the element types of A and B, and of C. Products are summed in float32.
struct MatmulTypes {
  Type operands, result;
  // Returns whether there is a kernel: A and B are float32 or narrow, C is like them or float32.
  bool areMultiplied() const;
};
// Emits the kernel that serves every shape of `form`: buffers are A, B and C (the third), the
// scalars of MatmulShape begin at `firstScalar`, and rows are batch * m. For threads it emits no
// body: a library multiplies.
void emitMatmul(Kernel &kernel, MatmulForm form, bool accumulate, MatmulTypes types,
                unsigned aBuffer = 0, unsigned bBuffer = 1, unsigned firstScalar = 0);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_KERNELEMITTERS_H
