// Defines the order in which a stage runs the steps of its micro-batches. Test:
// test/passes/5-schedule/build-table.mlir.
#ifndef LLMC_PASSES_SCHEDULE_BUILDTABLE_SCHEDULES_H
#define LLMC_PASSES_SCHEDULE_BUILDTABLE_SCHEDULES_H

#include <cstdint>
#include <vector>

namespace llmc {

// Identifies the kind of a step: F forward, B backward; of a split backward B is what the previous
// stage waits for, and W the weight gradients.
enum class StepKind { F, B, W };

struct Step {
  StepKind kind;
  int64_t chunk, microBatch;
};

// Returns the steps of an inference: each micro-batch forward.
std::vector<Step> forwards(int64_t microBatches);

// Returns all forwards, then all backwards (Huang et al., 2019, figure 2).
std::vector<Step> gpipe(int64_t microBatches);

// Returns 1F1B (Narayanan et al., 2021, figure 4, top): stage s of p runs p - s - 1
// forwards ahead, then alternates.
std::vector<Step> oneFOneB(int64_t microBatches, int64_t stage, int64_t stages);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUILDTABLE_SCHEDULES_H
