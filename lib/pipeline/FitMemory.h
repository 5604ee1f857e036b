// Finds what to keep so that the arena of every rank stays within a limit. Test:
// test/numerics/memory.py.
#ifndef LLMC_LIB_PIPELINE_FITMEMORY_H
#define LLMC_LIB_PIPELINE_FITMEMORY_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/5-schedule/Pipeline.h"

namespace llmc {

// Finds what the stages of a partitioned training step keep, so that the arena of each takes at most
// `limit` bytes and what runs again costs least; records it in the module as `plan.kept`. What a
// choice takes is measured: phase 5 runs on copies of the module. Emits an error for each stage that
// does not fit whatever it keeps, and fails.
mlir::LogicalResult fitMemory(mlir::ModuleOp module, const ScheduleOptions &options, int64_t limit);

// Emits an error for each stage of a plan, of a training step or of an inference (`infer`), whose
// arena takes more than `limit` bytes, and fails.
mlir::LogicalResult checkMemory(mlir::ModuleOp plan, bool infer, int64_t limit);

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_FITMEMORY_H
