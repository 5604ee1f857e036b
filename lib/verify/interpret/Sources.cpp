// Walks the views of each state; a view maps a block of the state to strided elements of a
// source.
#include "lib/verify/interpret/Sources.h"

#include "dialects/graph/GraphAttrs.h"

#include "dialects/graph/Detail.h"

using namespace mlir;

namespace llmc::verify {

std::vector<int64_t> validShape(graph::StateOp state) {
  if (!state.getValidShape())
    return cast<RankedTensorType>(state.getType()).getShape().vec();
  std::vector<int64_t> shape;
  for (auto size : state.getValidShape()->getAsRange<IntegerAttr>())
    shape.push_back(size.getInt());
  return shape;
}

// Calls f(source symbol) for each view of a parameter, and what that returns with (element of the
// state, element of the source) for each element.
template <typename F>
static void forEachElement(graph::StateOp parameter, F f) {
  std::vector<int64_t> shape = validShape(parameter);
  if (!parameter.getViews())
    return;
  int64_t first = 0;
  shape.erase(shape.begin(), shape.begin() + parameter.getViewedDims());
  for (auto view : parameter.getViews()->getAsRange<graph::ViewAttr>()) {
    std::string source = view.getSource().getValue().str();
    auto &&at = f(source);
    Tensor whole(shape);
    int64_t starts[] = {first, view.getOffset()};
    graph::forEach(shape, {whole.strides(), view.getStrides().vec()},
                   [&](const int64_t *offsets) { at(offsets[0], offsets[1]); }, starts);
    first += whole.size();
  }
}

NamedTensors statesFromSources(ModuleOp module, const NamedTensors &sources) {
  SymbolTable symbols(module); // looks up at once: mixtures have tens of thousands of sources
  NamedTensors states;
  for (auto state : module.getOps<graph::StateOp>()) {
    graph::StateOp parameter = state; // A master starts as its parameter does.
    if (state.getRole() == graph::Role::master && state.getOf())
      parameter = symbols.lookup<graph::StateOp>(*state.getOf());
    if (!parameter || parameter.getRole() != graph::Role::parameter)
      continue;
    Tensor &value = states[state.getSymName().str()] = Tensor(validShape(state));
    forEachElement(parameter, [&](const std::string &name) {
      auto found = sources.find(name);
      const Tensor *from = found == sources.end() ? nullptr : &found->second;
      return [&value, from](int64_t own, int64_t element) {
        if (from && element < from->size())
          value.data[own] = from->data[element];
      };
    });
  }
  return states;
}

NamedTensors sourcesFromStates(ModuleOp module, const NamedTensors &states, graph::Role role) {
  SymbolTable symbols(module);
  NamedTensors sources;
  for (auto state : module.getOps<graph::StateOp>()) {
    if (state.getRole() != role)
      continue;
    graph::StateOp parameter = state;
    if (state.getOf())
      parameter = symbols.lookup<graph::StateOp>(*state.getOf());
    auto found = states.find(state.getSymName().str());
    if (!parameter || found == states.end() || found->second.shape != validShape(parameter))
      continue;
    const Tensor &value = found->second;
    forEachElement(parameter, [&](const std::string &name) {
      Tensor &to = sources[name];
      if (auto source = symbols.lookup<graph::SourceOp>(name); source && to.data.empty())
        to = Tensor(cast<RankedTensorType>(source.getType()).getShape().vec());
      return [&value, &to](int64_t own, int64_t element) {
        if (element < to.size())
          to.data[element] = value.data[own];
      };
    });
  }
  return sources;
}

std::pair<std::string, int64_t> storedLocation(ModuleOp imported, graph::SourceOp source) {
  auto files = imported->getAttrOfType<ArrayAttr>(graph::kFiles);
  if (!source.getFile() || !files || *source.getFile() >= static_cast<uint64_t>(files.size()))
    return {};
  auto file = cast<DictionaryAttr>(files[*source.getFile()]);
  return {file.getAs<StringAttr>("path").str(), static_cast<int64_t>(*source.getFileOffset())};
}

void unifySharedTensors(ModuleOp imported, NamedTensors &weights) {
  std::map<std::pair<std::string, int64_t>, std::string> first;
  for (auto source : imported.getOps<graph::SourceOp>()) {
    auto place = storedLocation(imported, source);
    std::string name = source.getSymName().str();
    if (place.first.empty() || !weights.count(name))
      continue;
    auto [it, isFirst] = first.try_emplace(place, name);
    if (!isFirst && weights[it->second].shape == weights[name].shape)
      weights[name] = weights[it->second];
  }
}

} // namespace llmc::verify
