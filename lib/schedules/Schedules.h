// Defines the order in which a stage runs the steps of its micro-batches. Tests:
// test/passes/5-schedule/build-table.mlir, SchedulesTest.cpp.
#ifndef LLMC_LIB_SCHEDULES_SCHEDULES_H
#define LLMC_LIB_SCHEDULES_SCHEDULES_H

#include <cstdint>
#include <string_view>
#include <vector>

namespace llmc {

// Identifies the kind of a step: F forward, B backward; of a split backward B is what the previous
// stage waits for, and W the weight gradients.
enum class StepKind { F, B, W };

struct Step {
  StepKind kind;
  int64_t chunk, microBatch;
};
inline bool operator==(const Step &a, const Step &b) {
  return a.kind == b.kind && a.chunk == b.chunk && a.microBatch == b.microBatch;
}

// Returns the steps of an inference: each micro-batch forward.
std::vector<Step> forwards(int64_t microBatches);

// Returns all forwards, then all backwards (Huang et al., 2019, figure 2).
std::vector<Step> gpipe(int64_t microBatches);

// Returns 1F1B (Narayanan et al., 2021, figure 4, top): stage s of p runs p - s - 1
// forwards ahead, then alternates.
std::vector<Step> oneFOneB(int64_t microBatches, int64_t stage, int64_t stages);

// Returns interleaved 1F1B (Narayanan et al., 2021, figure 4, bottom, section 2.2): micro-batches go
// through the chunks of a stage in groups of p, forward from the first chunk, backward from the last;
// stage s of p runs 2 (p - s - 1) + (v - 1) p forwards ahead, then alternates. p divides the
// micro-batches.
std::vector<Step> interleaved(int64_t microBatches, int64_t chunks, int64_t stage, int64_t stages);

// Returns ZB-H1 (Qi et al., 2024, "Zero Bubble Pipeline Parallelism", figure 3, top): 1F1B with W s
// micro-batches behind B on stage s of p, so that no stage holds more than min(m, p) of them from F
// to W. With F, B and W of equal length and m >= p every stage waits p - 1 of their lengths.
std::vector<Step> zeroBubble(int64_t microBatches, int64_t stage, int64_t stages);

// Names the schedules above but the first, as --schedule does.
inline constexpr std::string_view kSchedules[] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};

// Returns the steps of a stage in the schedule of that name; none for another name.
std::vector<Step> stepsOf(std::string_view schedule, int64_t microBatches, int64_t chunks, int64_t stage,
                          int64_t stages);

} // namespace llmc

#endif // LLMC_LIB_SCHEDULES_SCHEDULES_H
