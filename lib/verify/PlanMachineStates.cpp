// What a machine holds before and after: parameters, accumulators, results.
#include "lib/verify/PlanMachineParts.h"

#include <cmath>

using namespace mlir;

namespace llmc::verify::machine {

// Calls f(buffer, state) for every bound state of a role, on every rank that has it.
template <typename F> void PlanMachine::forEachState(StringRef role, F f) {
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      DictionaryAttr binding = buffer.getBindingAttr();
      auto symbol = binding ? binding.getAs<FlatSymbolRefAttr>("state") : FlatSymbolRefAttr();
      auto own = binding ? binding.getAs<StringAttr>("role") : StringAttr();
      if (symbol && own && own.getValue() == role)
        f(rank, buffer, symbol.getValue().str());
    }
}

// Calls f(cell, global element) for the elements of a bound state that are no padding.
template <typename F>
void PlanMachine::forEachElement(const Rank &rank, plan::BufferOp op, ArrayRef<int64_t> global,
                                 F f) const {
  const Place &place = rank.stage->places.find(op)->second;
  DictionaryAttr binding = op.getBindingAttr();
  auto dims = binding.getAs<ArrayAttr>("dims");
  auto first = binding.getAs<IntegerAttr>("layer_first");
  SmallVector<int64_t> starts;
  if (first)
    starts.push_back(first.getInt());
  for (auto axes : dims.getAsRange<ArrayAttr>()) {
    int64_t part = 0;
    for (auto axis : axes.getAsRange<StringAttr>())
      part = part * mesh.getSize(axis.getValue()) + rank.coordinate[mesh.getIndex(axis.getValue())];
    starts.push_back(part * place.shape[starts.size()]);
  }
  if (starts.size() != global.size() || place.shape.size() != global.size())
    return;
  int64_t count = tensorOf(op).getNumElements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, element = 0, scale = 1;
    bool valid = true;
    for (size_t d = global.size(); d-- > 0;) {
      int64_t at = starts[d] + rest % place.shape[d];
      rest /= place.shape[d];
      valid &= at < global[d];
      element += at * scale;
      scale *= global[d];
    }
    if (valid)
      f(place.offset + i * place.step, element);
  }
}

void PlanMachine::fillStates(const NamedTensors &states) {
  for (StringRef role : {"parameter", "master", "moment1", "moment2"})
    forEachState(role, [&](Rank &rank, plan::BufferOp op, const std::string &name) {
      const Place &place = rank.stage->places.find(op)->second;
      std::fill_n(rank.cells.begin() + place.offset, place.cells, 0.0);
      auto found = states.find(name);
      if (found != states.end())
        forEachElement(rank, op, found->second.shape, [&](int64_t cell, int64_t element) {
          rank.cells[cell] = found->second.data[element];
        });
    });
}

// The same, but what a step must not read holds a number that shows if it does: padding,
// and accumulators before the step empties them.
void PlanMachine::fillDrawn(const NamedTensors &states) {
  fillStates({});
  for (StringRef role : {"parameter", "master", "moment1", "moment2", "accumulator"})
    forEachState(role, [&](Rank &rank, plan::BufferOp op, const std::string &name) {
      const Place &place = rank.stage->places.find(op)->second;
      std::fill_n(rank.cells.begin() + place.offset, place.cells, 3.25);
      auto state = module.lookupSymbol<graph::StateOp>(name);
      if (!state || role == "accumulator")
        return;
      auto found = states.find(name);
      forEachElement(rank, op, validShape(state), [&](int64_t cell, int64_t element) {
        rank.cells[cell] = found == states.end() ? 0 : found->second.data[element];
      });
    });
}

// The step's outputs, of every rank that has them.
NamedTensors PlanMachine::gatherOutputs(double &replicaError) {
  NamedTensors outputs;
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      DictionaryAttr binding = buffer.getBindingAttr();
      auto name = binding ? binding.getAs<StringAttr>("output") : StringAttr();
      if (!name)
        continue;
      Tensor value = read(rank, buffer);
      auto [it, isNew] = outputs.try_emplace(name.str(), value);
      for (int64_t i = 0; i < value.size() && !isNew; ++i) {
        double difference = std::abs(it->second.data[i] - value.data[i]);
        replicaError = std::max(replicaError, std::isnan(difference) ? INFINITY : difference);
      }
    }
  return outputs;
}

NamedTensors PlanMachine::gather(StringRef role, double &replicaError) {
  NamedTensors states;
  std::map<std::string, std::vector<bool>> seen;
  forEachState(role, [&](Rank &rank, plan::BufferOp op, const std::string &name) {
    auto state = module.lookupSymbol<graph::StateOp>(name);
    if (!state || (role == "accumulator" && !state.getOf()))
      return;
    Tensor &whole = states[name];
    std::vector<bool> &have = seen[name];
    if (whole.shape.empty() && whole.data.empty()) {
      whole = Tensor(validShape(state));
      have.resize(whole.size());
      std::fill(whole.data.begin(), whole.data.end(), NAN);
    }
    forEachElement(rank, op, whole.shape, [&](int64_t cell, int64_t element) {
      double value = rank.cells[cell];
      if (have[element]) {
        double difference = std::abs(whole.data[element] - value);
        replicaError = std::max(replicaError, std::isnan(difference) ? INFINITY : difference);
        return;
      }
      have[element] = true;
      whole.data[element] = value;
    });
  });
  return states;
}

// Of an inference: the parts of every output that ranks hold.
NamedTensors PlanMachine::gatherResults(double &replicaError) {
  NamedTensors results;
  std::map<std::string, std::vector<bool>> seen;
  for (Rank &rank : ranks)
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>()) {
      DictionaryAttr binding = buffer.getBindingAttr();
      auto name = binding ? binding.getAs<StringAttr>("output") : StringAttr();
      auto valid = binding ? binding.getAs<DenseI64ArrayAttr>("valid_shape") : DenseI64ArrayAttr();
      if (!name || !valid)
        continue;
      auto [entry, isNew] = results.try_emplace(name.str(), Tensor(valid.asArrayRef().vec()));
      Tensor &whole = entry->second;
      std::vector<bool> &have = seen[name.str()];
      if (isNew) {
        have.resize(whole.size());
        std::fill(whole.data.begin(), whole.data.end(), NAN);
      }
      forEachElement(rank, buffer, whole.shape, [&](int64_t cell, int64_t element) {
        double value = rank.cells[cell], &other = whole.data[element];
        if (have[element] && !(std::isnan(value) && std::isnan(other)) && value != other)
          replicaError = std::max(replicaError, std::isnan(value - other) ? INFINITY
                                                                          : std::abs(value - other));
        have[element] = true;
        other = value;
      });
    }
  return results;
}

double PlanMachine::readScalar(StringRef name) {
  for (Rank &rank : llvm::reverse(ranks))
    for (auto buffer : rank.stage->op.getBody().getOps<plan::BufferOp>())
      if (DictionaryAttr binding = buffer.getBindingAttr())
        if (auto output = binding.getAs<StringAttr>("output"); output && output.getValue() == name)
          return rank.cells[rank.stage->places.find(buffer)->second.offset];
  return NAN;
}

} // namespace llmc::verify::machine
