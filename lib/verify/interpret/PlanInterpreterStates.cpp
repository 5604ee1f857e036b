// Fills arenas with states before a step and gathers parameters, accumulators and results after
// it.
#include "lib/verify/interpret/PlanInterpreterParts.h"

#include <cmath>

using namespace mlir;
using llmc::graph::Role;

namespace llmc::verify::plan_interpreter {

// Calls f(rank, buffer) for every buffer whose binding has the role, on every rank of its stage.
template <typename F> void PlanInterpreter::forEachBuffer(Role role, F f) {
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      auto state = buffer.getBindingAs<plan::StateBindingAttr>();
      auto flat = buffer.getBindingAs<plan::FlatBindingAttr>();
      if ((state && state.getRole() == role) || (flat && flat.getRole() == role))
        f(rank, buffer);
    }
}

static SmallVector<StringAttr> namesOf(Attribute axes) {
  return llvm::to_vector(cast<ArrayAttr>(axes).getAsRange<StringAttr>());
}

// Describes the shard of `shape` that a rank holds of a tensor cut over `dims`; of a state, which
// one, and its first layer.
Held PlanInterpreter::heldAs(const Rank &rank, ArrayAttr dims, std::vector<int64_t> shape,
                             plan::StateBindingAttr state) const {
  Held held;
  if (state)
    held.state = state.getState().getValue().str();
  if (state && state.isStacked())
    held.starts.push_back(state.getFirstLayer());
  for (Attribute axes : dims) {
    size_t d = held.starts.size();
    held.starts.push_back(d < shape.size() ? partOf(rank, namesOf(axes)) * shape[d] : 0);
  }
  held.shape = std::move(shape);
  return held;
}

// Returns the row-major coordinate of a rank over some axes.
int64_t PlanInterpreter::partOf(const Rank &rank, ArrayRef<StringAttr> axes) const {
  int64_t part = 0;
  for (StringAttr axis : axes)
    part = part * mesh.getSize(axis.getValue()) + rank.coordinate[mesh.getIndex(axis.getValue())];
  return part;
}

// Returns the shards in a buffer: one, or those of a flat buffer, which it holds one after the
// other.
SmallVector<Held> PlanInterpreter::heldIn(const Rank &rank, plan::BufferOp op) const {
  SmallVector<Held> list;
  if (auto state = op.getBindingAs<plan::StateBindingAttr>())
    list.push_back(heldAs(rank, state.getDims(), tensorOf(op).getShape().vec(), state));
  auto flat = op.getBindingAs<plan::FlatBindingAttr>();
  for (plan::FlatPartAttr part : flat ? flat.getParts() : ArrayRef<plan::FlatPartAttr>()) {
    plan::StateBindingAttr state = part.getState();
    list.push_back(heldAs(rank, state.getDims(), part.getShape().asArrayRef().vec(), state));
    list.back().shift =
        part.getBegin() - partOf(rank, flat.getAxes()) * tensorOf(op).getNumElements();
  }
  return list;
}

// Calls f(cell, global element) for the elements of a tensor that the rank holds, except padding.
template <typename F>
void PlanInterpreter::forEachElement(const Rank &rank, plan::BufferOp op, const Held &held,
                                 ArrayRef<int64_t> global, F f) const {
  const CellRange &place = rank.stage->cellRanges.find(op)->second;
  if (held.starts.size() != global.size() || held.shape.size() != global.size())
    return;
  int64_t begin = std::max<int64_t>(0, -held.shift);
  int64_t end = std::min(Tensor::count(held.shape), tensorOf(op).getNumElements() - held.shift);
  for (int64_t i = begin; i < end; ++i) {
    int64_t rest = i, element = 0, scale = 1;
    bool valid = true;
    for (size_t d = global.size(); d-- > 0;) {
      int64_t at = held.starts[d] + rest % held.shape[d];
      rest /= held.shape[d];
      valid &= at >= 0 && at < global[d];
      element += at * scale;
      scale *= global[d];
    }
    if (valid)
      f(place.offset + (i + held.shift) * place.step, element);
  }
}

void PlanInterpreter::fillStates(const NamedTensors &states) {
  for (auto role : {Role::parameter, Role::master, Role::moment1, Role::moment2})
    forEachBuffer(role, [&](Rank &rank, plan::BufferOp op) {
      const CellRange &place = rank.stage->cellRanges.find(op)->second;
      std::fill_n(rank.cells.begin() + place.offset, place.cells, 0.0);
      for (const Held &held : heldIn(rank, op))
        if (auto found = states.find(held.state); found != states.end())
          forEachElement(rank, op, held, found->second.shape, [&](int64_t cell, int64_t element) {
            rank.cells[cell] = found->second.data[element];
          });
    });
}

// Fills states, but sets what a step must not read to a number that shows if it does: padding,
// and accumulators before the step clears them.
void PlanInterpreter::fillDrawn(const NamedTensors &states) {
  fillStates({});
  for (auto role : {Role::parameter, Role::master, Role::moment1, Role::moment2, Role::accumulator})
    forEachBuffer(role, [&](Rank &rank, plan::BufferOp op) {
      const CellRange &place = rank.stage->cellRanges.find(op)->second;
      std::fill_n(rank.cells.begin() + place.offset, place.cells, 3.25);
      if (role == Role::accumulator)
        return;
      for (const Held &held : heldIn(rank, op)) {
        auto state = symbols.lookup<graph::StateOp>(held.state);
        auto found = states.find(held.state);
        if (state)
          forEachElement(rank, op, held, validShape(state), [&](int64_t cell, int64_t element) {
            rank.cells[cell] = found == states.end() ? 0 : found->second.data[element];
          });
      }
    });
}

// Gathers the step's outputs, comparing the copies of ranks that have the same one.
NamedTensors PlanInterpreter::gatherOutputs(double &maxReplicaDifference) {
  NamedTensors outputs;
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      auto binding = buffer.getBindingAs<plan::OutputBindingAttr>();
      if (!binding)
        continue;
      Tensor value = read(rank, buffer);
      auto [it, isNew] = outputs.try_emplace(binding.getOutput().str(), value);
      for (int64_t i = 0; i < value.size() && !isNew; ++i) {
        double difference = std::abs(it->second.data[i] - value.data[i]);
        maxReplicaDifference =
            std::max(maxReplicaDifference, std::isnan(difference) ? INFINITY : difference);
      }
    }
  return outputs;
}

NamedTensors PlanInterpreter::gather(Role role, double &maxReplicaDifference) {
  NamedTensors states;
  std::map<std::string, std::vector<bool>> seen;
  auto add = [&](const Rank &rank, plan::BufferOp op, const Held &held) {
    auto state = symbols.lookup<graph::StateOp>(held.state);
    if (!state || (role == Role::accumulator && !state.getOf()))
      return;
    Tensor &whole = states[held.state];
    std::vector<bool> &have = seen[held.state];
    if (whole.shape.empty() && whole.data.empty()) {
      whole = Tensor(validShape(state));
      have.resize(whole.size());
      std::fill(whole.data.begin(), whole.data.end(), NAN);
    }
    forEachElement(rank, op, held, whole.shape, [&](int64_t cell, int64_t element) {
      double value = rank.cells[cell];
      if (have[element]) {
        double difference = std::abs(whole.data[element] - value);
        maxReplicaDifference =
            std::max(maxReplicaDifference, std::isnan(difference) ? INFINITY : difference);
        return;
      }
      have[element] = true;
      whole.data[element] = value;
    });
  };
  forEachBuffer(role, [&](Rank &rank, plan::BufferOp op) {
    for (const Held &held : heldIn(rank, op))
      add(rank, op, held);
  });
  return states;
}

// Assembles the outputs of an inference from the shards of all ranks.
NamedTensors PlanInterpreter::gatherResults(double &maxReplicaDifference) {
  NamedTensors results;
  std::map<std::string, std::vector<bool>> seen;
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      auto binding = buffer.getBindingAs<plan::OutputBindingAttr>();
      if (!binding || !binding.getValidShape())
        continue;
      std::string name = binding.getOutput().str();
      auto [entry, isNew] =
          results.try_emplace(name, Tensor(binding.getValidShape().asArrayRef().vec()));
      Tensor &whole = entry->second;
      std::vector<bool> &have = seen[name];
      if (isNew) {
        have.resize(whole.size());
        std::fill(whole.data.begin(), whole.data.end(), NAN);
      }
      Held held = heldAs(rank, binding.getDims(), tensorOf(buffer).getShape().vec());
      forEachElement(rank, buffer, held, whole.shape, [&](int64_t cell, int64_t element) {
        double value = rank.cells[cell], &other = whole.data[element];
        if (have[element] && !(std::isnan(value) && std::isnan(other)) && value != other)
          maxReplicaDifference = std::max(maxReplicaDifference, std::isnan(value - other) ? INFINITY
                                                                          : std::abs(value - other));
        have[element] = true;
        other = value;
      });
    }
  return results;
}

std::set<std::string> PlanInterpreter::scalarNames() {
  std::set<std::string> names;
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>())
      if (auto binding = buffer.getBindingAs<plan::OutputBindingAttr>())
        names.insert(binding.getOutput().getValue().str());
  return names;
}

double PlanInterpreter::readScalar(StringRef name) {
  for (Rank &rank : llvm::reverse(ranks))
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>())
      if (auto binding = buffer.getBindingAs<plan::OutputBindingAttr>();
          binding && binding.getOutput().getValue() == name)
        return rank.cells[rank.stage->cellRanges.find(buffer)->second.offset];
  return NAN;
}

} // namespace llmc::verify::plan_interpreter
