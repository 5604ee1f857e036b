// Decides when messages between stages are exchanged. Tests: test/passes/5-schedule/
// build-table-messages.mlir, SchedulesTest.cpp.
#ifndef LLMC_LIB_SCHEDULES_EXCHANGES_H
#define LLMC_LIB_SCHEDULES_EXCHANGES_H

#include "lib/schedules/Schedules.h"

#include <functional>
#include <map>
#include <optional>
#include <set>

namespace llmc {

// Returns the column of each step of each stage if all steps take equally long: one after the step
// before it, and after the step of the neighbouring virtual stage whose message it needs. Virtual
// stage k is chunk k / p of stage k mod p. Nullopt if the orders of the stages block each other.
std::optional<std::vector<std::vector<int64_t>>>
columnsOf(const std::vector<std::vector<Step>> &stages, int64_t chunks);

// Holds the slots of micro-batches in a pool.
struct Slots {
  std::map<int64_t, int64_t> of;      // micro-batch -> its slot
  std::map<int64_t, int64_t> freedBy; // micro-batch -> the step that had the slot last before; -1: none
  int64_t count = 0;
};
// Returns the slots of a chunk's micro-batches in a pool that steps of these kinds touch: each takes
// the lowest free slot with its first such step, and frees it after its last.
Slots assignSlots(const std::vector<Step> &steps, int64_t chunk, const std::set<StepKind> &kinds);
// Returns the same of each of the first `chunks` chunks, at once.
std::vector<Slots> assignSlots(const std::vector<Step> &steps, const std::set<StepKind> &kinds, int64_t chunks);
// Holds the same by the numbers of micro-batches, without maps: -1 where no step touches one.
struct DenseSlots {
  std::vector<int64_t> of, freedBy;
  int64_t count = 0;
};
std::vector<DenseSlots> assignDenseSlots(const std::vector<Step> &steps, const std::set<StepKind> &kinds, int64_t chunks);

// Identifies one end of a message: the step that makes it (`sends`) or needs it.
struct MessageEnd {
  bool sends;
  size_t step;
};

// Represents messages that a stage exchanges at one time, after its first `after` steps.
struct Exchange {
  size_t after;
  std::vector<MessageEnd> ends;
};

// Returns the exchanges of each stage, in order. A message travels as soon as it is made and its
// slot is free where it goes, in columns; all messages of a stage after one column are one
// exchange. But where a stage only receives, and needs the activations before the cotangents, it gets these
// first: the forward of a split backward would wait for a gradient that comes later. Both ends of a message so
// have one place in one order of all exchanges, and an exchange waits for nothing behind it: no two ranks wait
// for each other, whatever order their devices keep.
// `freedBy` (stage, step) returns the step that had the slot last into which a step's message is
// received, -1 if none had. Where `mayJoin` (stage, sent step, needed step) is false on any stage, that
// column's cotangents travel before its activations on all of them, of an inference all that leaves before
// what comes.
std::vector<std::vector<Exchange>>
exchangesOf(const std::vector<std::vector<Step>> &stages,
            const std::vector<std::vector<int64_t>> &columns, int64_t chunks,
            const std::function<int64_t(size_t, size_t)> &freedBy,
            const std::function<bool(size_t, size_t, size_t)> &mayJoin);

} // namespace llmc

#endif // LLMC_LIB_SCHEDULES_EXCHANGES_H
