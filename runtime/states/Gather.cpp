#include "runtime/states/Gather.h"

#include "runtime/plan/Shard.h"

#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::StateRole;
using planfile::StateShardT;
using support::ElementType;
using support::error;

namespace {

// Returns the view of a state. Roles other than the parameter may omit it: it is the
// parameter's. Returns null if there is none.
const planfile::ViewT *viewOf(const planfile::StageT &stage, const StateShardT &state) {
  if (state.view)
    return state.view.get();
  for (const auto &other : stage.states)
    if (other->role == StateRole::Parameter && other->name == state.name &&
        other->global_shape == state.global_shape)
      return other->view.get();
  return nullptr;
}

template <class F>
void forEachState(const planfile::ProgramT &program, size_t source, StateRole role, F &&f) {
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    for (const auto &state : program.stages[stage]->states) {
      if (state->role != role || !state->owner)
        continue;
      const planfile::ViewT *view = viewOf(*program.stages[stage], *state);
      if (view && view->source == source)
        f(stage, *state, *view);
    }
}

support::Result<LogicalTensor> transpose(support::Result<LogicalTensor> tensor, int64_t rows,
                                         int64_t columns) {
  if (!tensor)
    return tensor;
  size_t size = support::byteSize(tensor->type);
  std::vector<std::byte> turned(tensor->bytes.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      std::memcpy(&turned[(c * rows + r) * size], &tensor->bytes[(r * columns + c) * size], size);
  tensor->bytes = std::move(turned);
  return tensor;
}

} // namespace

bool runtime::hasState(const planfile::ProgramT &program, size_t source, StateRole role) {
  bool found = false;
  forEachState(program, source, role, [&](uint32_t, const auto &, const auto &) { found = true; });
  return found;
}

ElementType runtime::stateType(const planfile::ProgramT &program, size_t source,
                               StateRole role) {
  ElementType type = ElementType::F32;
  forEachState(program, source, role, [&](uint32_t, const StateShardT &state, const auto &) {
    type = state.dtype == DType::F64 ? ElementType::F64 : ElementType::F32;
  });
  return type;
}

support::Result<LogicalTensor> runtime::gather(const Executor &executor, size_t source,
                                               StateRole role) {
  const planfile::ProgramT &program = executor.program();
  const planfile::SourceTensorT &tensor = *program.sources[source];
  LogicalTensor result;
  result.type = stateType(program, source, role);
  size_t size = support::byteSize(result.type);
  uint64_t total = *support::elementCount(tensor.shape), covered = 0;
  result.bytes.resize(total * size);
  bool good = true;
  forEachState(program, source, role, [&](uint32_t stage, const StateShardT &state,
                                          const planfile::ViewT &view) {
    good &= planfile::byteSize(state.dtype) == size;
    for (uint32_t rank = 0; good && rank < executor.ranks(); ++rank) {
      std::vector<uint32_t> coordinate = planfile::coordinateOf(*program.mesh, rank);
      if (executor.stageOfRank(rank) != stage ||
          !isFirstHolder(program, stage, state, coordinate))
        continue;
      for (const HeldBox &box : heldBoxes(program, stage, state, coordinate)) {
        const std::byte *from = executor.stateOf(rank, state) + box.at * int64_t(size);
        forEachRun(box.shard, view,
                   [&](int64_t local, int64_t first, int64_t count, int64_t stride) {
                     covered += static_cast<uint64_t>(count);
                     if (stride == 1) {
                       std::memcpy(&result.bytes[first * size], from + local * size, count * size);
                       return;
                     }
                     for (int64_t i = 0; i < count; ++i)
                       std::memcpy(&result.bytes[(first + i * stride) * size],
                                   from + (local + i) * size, size);
                   });
      }
    }
  });
  if (!good)
    return error("tensor '", tensor.name, "': its ", toString(role), "s have several types");
  if (covered != total)
    return error("tensor '", tensor.name, "': the ranks hold ", covered, " elements of its ",
                 toString(role), ", not ", total);
  return result;
}

bool runtime::savesOwnName(const planfile::SourceTensorT &source) {
  return !source.unnamed || (source.aliases.empty() && source.transposed_aliases.empty());
}

void runtime::addUnderAllNames(std::vector<support::TensorToWrite> &tensors,
                               const planfile::SourceTensorT &source, ElementType type,
                               const std::string &prefix, const LogicalValue &value) {
  using Sink = support::TensorToWrite::Sink;
  auto add = [&](const std::string &name, std::vector<int64_t> shape, LogicalValue make) {
    tensors.push_back({prefix + name, type, std::move(shape), [make](const Sink &sink) {
                         support::Result<LogicalTensor> tensor = make();
                         if (!tensor)
                           return support::Status(tensor.takeError());
                         return sink(tensor->bytes.data(), tensor->bytes.size());
                       }});
  };
  if (!prefix.empty() || savesOwnName(source))
    add(source.name, source.shape, value);
  for (const std::string &alias : source.aliases)
    add(alias, source.shape, value);
  for (const std::string &alias : source.transposed_aliases) {
    int64_t rows = source.shape[0], columns = source.shape[1];
    add(alias, {columns, rows}, [=] { return transpose(value(), rows, columns); });
  }
}
