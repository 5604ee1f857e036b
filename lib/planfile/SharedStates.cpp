#include "lib/planfile/SharedStates.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Precision.h"
#include "lib/planfile/Trace.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::planfile;

// Returns the axes over which a state is cut regardless of its dims; none if it is not flat.
static std::vector<uint32_t> sharedAxes(const StageT &stage, const StateShardT &state) {
  return state.flat ? stage.flat_groups[state.flat->group]->axes : std::vector<uint32_t>();
}

// Returns whether the stage adds gradients up in whole sums of its own, which no parameter has.
static bool hasWholeSums(const StageT &stage) {
  return std::any_of(stage.states.begin(), stage.states.end(), [&](const auto &state) {
    return state->role == StateRole::Accumulator && !viewOf(stage, *state) &&
           !state->local_shape.empty();
  });
}

int planfile::zeroStage(const StageT &stage) {
  int zero = 0;
  for (const auto &state : stage.states) {
    if (sharedAxes(stage, *state).empty())
      continue;
    switch (state->role) {
    case StateRole::Parameter:
      return 3;
    case StateRole::Accumulator:
      zero = std::max(zero, hasWholeSums(stage) ? 1 : 2);
      break;
    case StateRole::Master:
    case StateRole::Moment1:
    case StateRole::Moment2:
      zero = std::max(zero, 1);
    }
  }
  return zero;
}

uint64_t StateBytes::kept(int zero, uint64_t ranks) const {
  auto share = [&](uint64_t bytes, bool isShared) { return isShared ? bytes / ranks : bytes; };
  // Counts what ranks have added beside what each has: in the type of the sum, and in that of gradients.
  uint64_t added = zero >= 2 ? 0 : reduced == gradients ? 0 : share(reduced, zero == 1);
  added += zero == 1 ? gradients / ranks : 0;
  return share(weights, zero >= 3) + share(gradients, zero >= 2) + share(optimizer, zero >= 1) + added;
}

uint64_t StateBytes::moved(int zero, uint64_t microBatches) const {
  return (zero >= 2 ? microBatches : 1) * reduced +
         (zero == 3 ? microBatches * (weights + readAgain) : zero ? weights : 0);
}

namespace {

// Tells which weights backward reads: from where they are kept, or gathered from there.
class ReadsOfBackward {
public:
  explicit ReadsOfBackward(const StageT &stage) {
    for (const auto &procedure : stage.procedures)
      for (const auto &inst : procedure->instructions)
        if (inst->phase == Phase::Backward)
          forEachAccess(*inst, 0, [&](const ByteAccess &a) {
            if (a.read && !a.slotted)
              ranges.push_back({a.begin, a.end});
          });
    std::sort(ranges.begin(), ranges.end());
    // Merges overlapping ranges, so that their ends are sorted too.
    size_t count = 0;
    for (auto [begin, end] : ranges)
      if (count && begin <= ranges[count - 1].second)
        ranges[count - 1].second = std::max(ranges[count - 1].second, end);
      else
        ranges[count++] = {begin, end};
    ranges.resize(count);
  }

  // Returns whether any byte of [begin, end) is read.
  bool touch(uint64_t begin, uint64_t end) const {
    auto it = std::lower_bound(ranges.begin(), ranges.end(), std::pair(end, uint64_t(0)));
    return it != ranges.begin() && std::prev(it)->second > begin;
  }

private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
};

} // namespace

StateBytes planfile::stateBytesOf(const ProgramT &program, const StageT &stage) {
  StateBytes sum;
  std::optional<DType> reduced = reductionType(program, stage);
  ReadsOfBackward reads(stage);
  for (const auto &state : stage.states) {
    if (!viewOf(stage, *state))
      continue;
    uint64_t bytes = byteSize(state->dtype);
    for (int64_t size : state->local_shape)
      bytes *= static_cast<uint64_t>(size);
    (state->role == StateRole::Parameter     ? sum.weights
     : state->role == StateRole::Accumulator ? sum.gradients
                                             : sum.optimizer) += bytes;
    if (state->role == StateRole::Accumulator)
      sum.reduced += bytes / byteSize(state->dtype) * byteSize(reduced.value_or(state->dtype));
    if (state->role != StateRole::Parameter)
      continue;
    // A bucket that is cut is gathered as one; else each tensor lies where it begins.
    bool isWhole = state->flat && sharedAxes(stage, *state).empty();
    uint64_t begin = state->buffer->offset + (isWhole ? state->flat->begin * byteSize(state->dtype) : 0);
    if (reads.touch(begin, begin + (isWhole ? bytes : state->buffer->size)))
      sum.readAgain += bytes;
  }
  return sum;
}

std::string planfile::statesNote(const ProgramT &program) {
  if (program.mode == Mode::Infer)
    return "";
  // Every stage shares out alike, but one may hold no parameter.
  int zero = 0;
  uint64_t ranks = 1;
  bool hasMasters = false, hasMoments = false;
  for (const auto &stage : program.stages) {
    zero = std::max(zero, zeroStage(*stage));
    for (const auto &state : stage->states) {
      ranks = std::max(ranks, sizeOf(*program.mesh, sharedAxes(*stage, *state)));
      hasMasters |= state->role == StateRole::Master;
      hasMoments |= state->role == StateRole::Moment1;
    }
  }
  std::vector<std::string> shared;
  if (hasMasters)
    shared.push_back("masters");
  if (hasMoments)
    shared.push_back("moments");
  if (zero != 1)
    shared.push_back("gradients");
  if (zero == 0 || zero == 3)
    shared.push_back("weights");
  std::string text = zero ? "a rank keeps 1/" + std::to_string(ranks) + " of " : "a rank keeps all of ";
  for (size_t i = 0; i < shared.size(); ++i)
    text += (i == 0 ? "" : i + 1 == shared.size() ? " and " : ", ") + shared[i];
  return text;
}
