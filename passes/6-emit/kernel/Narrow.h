// Converts between float32, in which kernels compute, and the bits of bfloat16 and float16 in
// memory. Tests: test/passes/6-emit/NarrowTest.cpp, all values of both and their boundaries.
#ifndef LLMC_PASSES_EMIT_KERNEL_NARROW_H
#define LLMC_PASSES_EMIT_KERNEL_NARROW_H

#include "mlir/IR/Builders.h"

namespace llmc::emit {

// Widens i16, or vectors of it, that hold floats of type `element`: exact, denormals too.
mlir::Value widened(mlir::OpBuilder &b, mlir::Location loc, mlir::Value bits,
                    mlir::Type element);
// Rounds float32 to the nearest float of type `element`, halves to even, and returns its bits.
// Denormals stay, what is too large becomes infinite, and a NaN stays one.
mlir::Value narrowed(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                     mlir::Type element);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_NARROW_H
