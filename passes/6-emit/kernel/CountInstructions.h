// Counts what a kernel executes for each row, by walking its code, so that its time can be predicted. Tests:
// test/passes/6-emit/emit-kernels.mlir.
#ifndef LLMC_PASSES_EMIT_KERNEL_COUNTINSTRUCTIONS_H
#define LLMC_PASSES_EMIT_KERNEL_COUNTINSTRUCTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::emit {

// Returns the instructions on vectors of `lanes` float32 that the kernel executes for one row of a long launch, where a
// division or a root counts as eight (their reciprocal throughput on x86-64: Fog, Instruction tables, 2022) and
// addresses as none. A loop whose length only the run knows counts once: those of attention, whose FLOPs a launch has.
double countInstructions(mlir::func::FuncOp kernel, unsigned lanes);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_COUNTINSTRUCTIONS_H
