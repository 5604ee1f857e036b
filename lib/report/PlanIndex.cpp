#include "lib/report/PlanIndex.h"

#include "lib/planfile/AxisNames.h"
#include "lib/support/Nearest.h"

#include <algorithm>
#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;

PlanIndex::PlanIndex(const ProgramT &program) : program(program), traffic(listTraffic(program)) {
  for (const auto &op : program.ops)
    for (size_t i = 0; i < op->names.size(); ++i)
      ops.insert({op->names[i], {op.get(), op->layers.empty() ? -1 : int64_t(op->layers[i])}});
  for (uint32_t i = 0; i < program.sources.size(); ++i) {
    sources.try_emplace(program.sources[i]->name, i);
    for (const auto *list :
         {&program.sources[i]->aliases, &program.sources[i]->transposed_aliases})
      for (const std::string &alias : *list)
        sources.try_emplace(alias, i);
  }
}

std::vector<NamedOp> PlanIndex::opsOf(const std::string &node) const {
  std::vector<NamedOp> found;
  auto [first, last] = ops.equal_range(node);
  for (auto it = first; it != last; ++it)
    found.push_back(it->second);
  std::stable_sort(found.begin(), found.end(), [](const NamedOp &a, const NamedOp &b) {
    return a.op->backward < b.op->backward;
  });
  return found;
}

const SourceTensorT *PlanIndex::sourceOf(const std::string &parameter) const {
  auto it = sources.find(parameter);
  return it == sources.end() ? nullptr : program.sources[it->second].get();
}

std::vector<const StateShardT *> PlanIndex::statesOf(uint32_t stage, const std::string &parameter) const {
  std::vector<const StateShardT *> found;
  auto it = sources.find(parameter);
  for (const auto &state : program.stages[stage]->states)
    if (it != sources.end() && state->view && state->view->source == it->second)
      found.push_back(state.get());
  return found;
}

bool PlanIndex::isInstructionNode(const std::string &name) const {
  for (const auto &origin : program.origins)
    if (std::find(origin->nodes.begin(), origin->nodes.end(), name) != origin->nodes.end())
      return true;
  return false;
}

std::optional<NamedOp> PlanIndex::opRequiring(const Traffic &t) const {
  const OriginT &origin = *program.origins[t.origin];
  if (t.phase == Phase::Update || origin.tensors.empty())
    return std::nullopt;
  std::optional<NamedOp> best;
  for (const std::string &node : origin.nodes)
    for (const NamedOp &named : opsOf(node)) {
      if (named.op->backward != (t.phase == Phase::Backward && !origin.recomputed))
        continue;
      bool explains = false;
      for (const auto &cut : named.op->cuts)
        explains |= cut->rule == origin.rule && cut->tactic == origin.tactic &&
                    std::find(t.axes.begin(), t.axes.end(), cut->axis) != t.axes.end();
      if (explains)
        return named;
      if (!best)
        best = named;
    }
  return best;
}

std::vector<std::string> PlanIndex::allNames() const {
  std::set<std::string> names;
  for (const Traffic &t : traffic)
    names.insert(t.name);
  for (const auto &[name, _] : ops)
    names.insert(name);
  for (const auto &[name, _] : sources)
    names.insert(name);
  for (const auto &op : program.ops)
    names.insert(shortOp(op->op));
  names.insert("schedule");
  return {names.begin(), names.end()};
}

std::vector<std::string> PlanIndex::nearest(const std::string &name) const {
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string &other : allNames()) {
    if (other.size() > 512 || name.size() > 512)
      continue;
    bool part = name.size() > 2 && other.find(name) != std::string::npos;
    scored.push_back({part ? 0 : support::editDistance(name, other), other});
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<std::string> best;
  for (size_t i = 0; i < scored.size() && i < 3; ++i)
    best.push_back(scored[i].second);
  return best;
}

std::string PlanIndex::nameIn(const TensorInfoT &tensor, int64_t layer) {
  if (tensor.names.size() == 1)
    return tensor.names.front();
  return layer >= 0 && layer < int64_t(tensor.names.size()) ? tensor.names[layer] : "";
}

std::vector<std::string> PlanIndex::namesOf(const std::vector<uint32_t> &axes) const {
  return userNames(*program.mesh, axes);
}

uint64_t PlanIndex::sizeOf(const std::vector<uint32_t> &axes) const {
  return planfile::sizeOf(*program.mesh, axes);
}

std::vector<uint32_t> PlanIndex::firstNamed(const std::vector<uint32_t> &axes) const {
  return axes.empty() ? axes : axesNamed(*program.mesh, namesOf(axes).front());
}

std::vector<PlanIndex::Cut> PlanIndex::cutsOf(const OpInfoT &op) const {
  std::vector<Cut> groups, cuts;
  for (const auto &cut : op.cuts) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Cut &other) {
      return other.why->tactic == cut->tactic && other.why->rule == cut->rule &&
             other.why->seed == cut->seed;
    });
    if (same == groups.end())
      groups.push_back({"", {cut->axis}, cut.get()});
    else
      same->axes.push_back(cut->axis);
  }
  for (const Cut &group : groups)
    for (const std::string &name : namesOf(group.axes))
      cuts.push_back({name, axesNamed(*program.mesh, name), group.why});
  return cuts;
}

bool PlanIndex::isCutOver(const LayoutT *layout, const std::vector<uint32_t> &axes) const {
  if (layout)
    for (const auto &dim : layout->dims)
      for (uint32_t axis : axes)
        if (std::find(dim->axes.begin(), dim->axes.end(), axis) != dim->axes.end())
          return true;
  return false;
}

std::vector<int64_t> PlanIndex::localShape(const TensorInfoT &tensor, bool needed) const {
  const LayoutT *layout = needed && tensor.needed ? tensor.needed.get() : tensor.layout.get();
  std::vector<int64_t> shape = tensor.shape;
  for (size_t d = 0; layout && d < layout->dims.size(); ++d)
    for (uint32_t axis : layout->dims[d]->axes) {
      int64_t parts = int64_t(axisSize(axis));
      shape[d] = (shape[d] + parts - 1) / parts;
    }
  return shape;
}

uint64_t PlanIndex::localBytes(const TensorInfoT &tensor, bool needed) const {
  return elementsOf(localShape(tensor, needed)) * byteSize(tensor.dtype);
}

std::string PlanIndex::axesText(const std::vector<uint32_t> &axes) const {
  return joinedUserNames(*program.mesh, axes, " x ");
}

std::string PlanIndex::layoutText(const std::vector<int64_t> &shape, const LayoutT *layout) const {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    text += (d ? ", " : "") + std::to_string(shape[d]);
    if (layout && d < layout->dims.size())
      for (const std::string &name : namesOf(layout->dims[d]->axes))
        text += "/" + name;
  }
  text += "]";
  if (layout && !layout->unreduced.empty())
    text += std::string(layout->reduce == ReduceKind::Max ? ", partial maxima over "
                                                          : ", partial sums over ") +
            axesText(layout->unreduced);
  return text;
}

json PlanIndex::describe(const TensorInfoT &tensor, int64_t layer) const {
  json j = {{"name", nameIn(tensor, layer)},
            {"dtype", toString(tensor.dtype)},
            {"shape", tensor.shape},
            {"local_shape", localShape(tensor)},
            {"bytes", localBytes(tensor)},
            {"layout", layoutText(tensor.shape, tensor.layout.get())}};
  if (tensor.needed)
    j["needed"] = layoutText(tensor.shape, tensor.needed.get());
  return j;
}

std::string shortOp(const std::string &op) { return op.substr(op.find('.') + 1); }

} // namespace llmc::report
