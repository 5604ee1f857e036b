#include "runtime/states/Gather.h"

#include "runtime/plan/Shard.h"

#include <algorithm>
#include <cstring>

using namespace llmc;
using namespace llmc::runtime;
using planfile::DType;
using planfile::StateRole;
using planfile::StateShardT;
using support::ElementType;
using support::error;

namespace {

auto ofRole(StateRole role) {
  return [role](const OwnedState &owned) { return owned.state->role == role; };
}

// Returns whether a state holds the most exact copy of a weight.
bool isWeight(const OwnedState &owned) { return owned.isWeight; }

// Returns the type that a state is gathered as: files of results have no 16-bit floats.
ElementType gatheredType(const StateShardT &state) {
  return state.dtype == DType::F64 ? ElementType::F64 : ElementType::F32;
}

template <class W>
ElementType typeOf(const SourceStates &states, size_t source, W &&wanted) {
  ElementType type = ElementType::F32;
  for (const OwnedState &owned : states.of(source))
    if (wanted(owned))
      type = gatheredType(*owned.state);
  return type;
}

// Copies `count` elements to every `stride`-th element of `to`; those of 16-bit floats become
// float32.
void copyRun(DType type, const std::byte *from, std::byte *to, int64_t count, int64_t stride) {
  auto widen = [&](auto wide) {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, from + i * int64_t(sizeof bits), sizeof bits);
      float value = wide(bits);
      std::memcpy(to + i * stride * int64_t(sizeof value), &value, sizeof value);
    }
  };
  auto size = static_cast<int64_t>(planfile::byteSize(type));
  if (type == DType::BF16)
    return widen(support::bfloatToFloat);
  if (type == DType::F16)
    return widen(support::halfToFloat);
  if (stride == 1)
    std::memcpy(to, from, static_cast<size_t>(count * size));
  else
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to + i * stride * size, from + i * size, static_cast<size_t>(size));
}

// Gathers the states that `wanted` returns true for; `what` names them in errors.
template <class W>
support::Result<LogicalTensor> gatherStates(const Executor &executor, const SourceStates &states,
                                            size_t source, W &&wanted, std::string_view what) {
  const planfile::ProgramT &program = executor.program();
  const planfile::SourceTensorT &tensor = *program.sources[source];
  LogicalTensor result;
  result.type = typeOf(states, source, wanted);
  size_t size = support::byteSize(result.type);
  uint64_t total = *support::elementCount(tensor.shape), covered = 0;
  result.bytes.resize(total * size);
  bool good = true;
  for (const OwnedState &owned : states.of(source)) {
    if (!wanted(owned))
      continue;
    const StateShardT &state = *owned.state;
    bool narrow = state.dtype == DType::BF16 || state.dtype == DType::F16;
    good &= gatheredType(state) == result.type &&
            (narrow || planfile::byteSize(state.dtype) == size);
    for (uint32_t rank = 0; good && rank < executor.ranks(); ++rank) {
      std::vector<uint32_t> coordinate = planfile::coordinateOf(*program.mesh, rank);
      if (executor.stageOfRank(rank) != owned.stage ||
          !isFirstHolder(program, owned.stage, state, coordinate))
        continue;
      auto own = static_cast<int64_t>(planfile::byteSize(state.dtype));
      for (const HeldBox &box : heldBoxes(program, owned.stage, state, coordinate)) {
        const std::byte *from = executor.stateOf(rank, state) + box.at * own;
        forEachRun(box.shard, *owned.view,
                   [&](int64_t local, int64_t first, int64_t count, int64_t stride) {
                     covered += static_cast<uint64_t>(count);
                     copyRun(state.dtype, from + local * own,
                             &result.bytes[static_cast<size_t>(first) * size], count, stride);
                   });
      }
    }
  }
  if (!good)
    return error("tensor '", tensor.name, "': its ", what, "s have several types");
  if (covered != total)
    return error("tensor '", tensor.name, "': the ranks hold ", covered, " elements of its ",
                 what, ", not ", total);
  return result;
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

bool runtime::hasState(const SourceStates &states, size_t source, StateRole role) {
  return std::any_of(states.of(source).begin(), states.of(source).end(), ofRole(role));
}

ElementType runtime::weightType(const SourceStates &states, size_t source) {
  return typeOf(states, source, isWeight);
}

support::Result<LogicalTensor> runtime::gather(const Executor &executor,
                                               const SourceStates &states, size_t source,
                                               StateRole role) {
  return gatherStates(executor, states, source, ofRole(role), toString(role));
}

support::Result<LogicalTensor> runtime::gatherWeights(const Executor &executor,
                                                      const SourceStates &states, size_t source) {
  return gatherStates(executor, states, source, isWeight, toString(StateRole::Parameter));
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
