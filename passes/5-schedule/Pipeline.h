// Builds phase 5. Tests: test/passes/5-schedule/RunTest.cpp, PlanTest.cpp.
#ifndef LLMC_PASSES_SCHEDULE_PIPELINE_H
#define LLMC_PASSES_SCHEDULE_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace llmc {

struct ScheduleOptions {
  std::string schedule = "1f1b"; // or "gpipe"
  int64_t microBatches = 1;      // of a step
  std::string recompute = "none"; // or "selective", "full", "auto"
  std::vector<int64_t> budgets;  // for auto: bytes that a micro-batch keeps on each stage; any without it
  bool fuse = true;              // joins ops into kernels
  int64_t gatherAhead = 1;       // layers whose weights are gathered before their turn
};

// Builds the first passes of phase 5: what backward computes again is decided and kernels are found, while layers are
// still folded and values are values.
void buildKernelPipeline(mlir::OpPassManager &pm, const ScheduleOptions &options);

// Builds phase 5, which turns partitioned functions into plan.stage ops.
void buildSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_PIPELINE_H
