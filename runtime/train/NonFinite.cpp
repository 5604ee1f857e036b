#include "runtime/train/NonFinite.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Elements.h"
#include "lib/support/ElementType.h"
#include "lib/support/Error.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::StageT;
using planfile::StateRole;
using planfile::StateShardT;

namespace {

// Holds the elements [begin, begin + count) of a state in a rank's arena.
struct Range {
  uint64_t begin = 0, count = 0;
};

// Returns the elements of a state that its buffer holds on a rank, counted from the buffer's begin.
Range rangeOf(const Executor &executor, uint32_t rank, const StateShardT &state) {
  uint64_t count = 1;
  for (int64_t size : state.local_shape)
    count *= static_cast<uint64_t>(size);
  if (!state.flat)
    return {0, count};
  const planfile::MeshT &mesh = *executor.program().mesh;
  const StageT &stage = *executor.program().stages[executor.stageOfRank(rank)];
  const planfile::FlatGroupT &group = *stage.flat_groups[state.flat->group];
  std::vector<uint32_t> at = planfile::coordinateOf(mesh, rank);
  uint64_t part = 0;
  for (uint32_t axis : group.axes)
    part = part * mesh.axes[axis]->size + at[axis];
  uint64_t own = part * group.length;
  uint64_t begin = std::max(own, state.flat->begin);
  uint64_t end = std::min(own + group.length, state.flat->begin + count);
  return {begin - own, begin < end ? end - begin : 0};
}

double numberAt(DType type, const std::byte *data, uint64_t i) {
  if (type == DType::F32 || type == DType::F64)
    return type == DType::F32 ? reinterpret_cast<const float *>(data)[i]
                              : reinterpret_cast<const double *>(data)[i];
  uint16_t bits = reinterpret_cast<const uint16_t *>(data)[i];
  return type == DType::BF16 ? support::bfloatToFloat(bits) : support::halfToFloat(bits);
}

// Returns a number of a rank's part of a state that is not finite; 0 if there is none.
double nonFiniteIn(const Executor &executor, uint32_t rank, const StateShardT &state) {
  const std::byte *data = executor.stateOf(rank, state);
  Range range = rangeOf(executor, rank, state);
  for (uint64_t i = 0; i < range.count; ++i)
    if (double number = numberAt(state.dtype, data, range.begin + i); !std::isfinite(number))
      return std::isnan(number) ? NAN : number; // the sign of one would be printed
  return 0;
}

std::string describeOn(const Executor &executor, uint32_t rank) {
  const planfile::ProgramT &program = executor.program();
  const StageT &stage = *program.stages[executor.stageOfRank(rank)];
  for (const auto &state : stage.states) {
    const planfile::ViewT *view = planfile::viewOf(stage, *state);
    if (state->role != StateRole::Accumulator || !view)
      continue;
    if (double number = nonFiniteIn(executor, rank, *state); number != 0)
      return support::text(
          "the gradient of '", program.sources[view->source]->name, "' is ", number, " on rank ", rank,
          " (", planfile::coordinateText(*program.mesh, planfile::coordinateOf(*program.mesh, rank)),
          ")");
  }
  return "";
}

} // namespace

std::optional<double> runtime::nonFiniteOutput(const Executor &executor, std::string_view name) {
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    for (const auto &output : executor.program().stages[executor.stageOfRank(rank)]->outputs) {
      float value;
      std::memcpy(&value, executor.arena(rank) + output->buffer->offset, sizeof value);
      if (output->name == name && !std::isfinite(value))
        return std::isnan(value) ? NAN : value; // the sign of one would be printed
    }
  return std::nullopt;
}

std::string runtime::describeNonFinite(const Executor &executor) {
  constexpr unsigned kMost = 8;
  std::string described;
  unsigned others = 0;
  for (uint32_t rank = 0; rank < executor.ranks() && others <= kMost; ++rank) {
    std::string own = describeOn(executor, rank);
    if (described.empty())
      described = own;
    else if (!own.empty() && ++others <= kMost)
      described += support::text(others == 1 ? ", also on " : ", ", rank);
  }
  return others > kMost ? described + ", ..." : described;
}
