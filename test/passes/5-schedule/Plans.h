// Draws plans of random models, whose kernels exist in name only.
#ifndef LLMC_TEST_PASSES_SCHEDULE_PLANS_H
#define LLMC_TEST_PASSES_SCHEDULE_PLANS_H

#include "lib/planfile/Program.h"
#include "test/passes/3-shard/Models.h"
#include <optional>

namespace llmc::test {

struct Plan {
  Model model;
  Mesh mesh;
  std::string schedule = "1f1b";
  int64_t microBatches = 1, bucketBytes = 25 << 20;
  bool adamw = true;
  int zero = 0;            // stage of ZeRO
  int64_t gatherAhead = 1; // layers

  std::string describe() const;
};
Plan drawPlan(std::mt19937 &random, int64_t maxRanks);

// Runs phases 2 to 5. Returns null after a failed check.
mlir::OwningOpRef<mlir::ModuleOp> schedule(mlir::MLIRContext &context, const Plan &plan);

// Returns the plan file of a scheduled module. All launches use one kernel, which does not exist.
std::optional<planfile::ProgramT> write(mlir::ModuleOp module, const Plan &plan);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_SCHEDULE_PLANS_H
