// Compares an outcome tensor by tensor and maps wrong elements to the ranks that hold them.
#include "lib/verify/FaultLocation.h"

#include "dialects/graph/Detail.h"
#include "dialects/parallel/Annotations.h"
#include "lib/verify/interpret/Sources.h"

#include <cmath>

using namespace mlir;

namespace llmc::verify {
namespace {

bool differs(double a, double b, double size) { return !(std::abs(a - b) <= 1e-9 * size); }

double largest(const Tensor &tensor) {
  double most = 1e-30;
  for (double x : tensor.data)
    most = std::max(most, std::abs(x));
  return most;
}

// Returns the first op that reads a state, looking through the argument of a function and of a
// graph.repeat, with the name of its source node; "" if no op reads it.
std::string readerOf(ModuleOp module, StringRef state) {
  Operation *reader = nullptr;
  module.walk([&](func::FuncOp func) {
    for (unsigned i = 0; i < func.getNumArguments() && !reader; ++i) {
      auto symbol = func.getArgAttrOfType<FlatSymbolRefAttr>(i, graph::kState);
      if (!symbol || symbol.getValue() != state || func.getArgument(i).use_empty())
        continue;
      OpOperand &use = *func.getArgument(i).getUses().begin();
      reader = use.getOwner();
      if (auto repeat = dyn_cast<graph::RepeatOp>(reader)) {
        Value inside = repeat.getBlock().getArgument(use.getOperandNumber());
        if (!inside.use_empty())
          reader = *inside.getUsers().begin();
      }
    }
  });
  if (!reader)
    return "";
  std::string node = parallel::getNodeName(reader->getLoc()).str();
  return reader->getName().getStringRef().str() + (node.empty() ? "" : " '" + node + "'");
}

// Returns the ranks whose shard of the state holds a wrong element; "" if the module has no mesh
// or the state no sharding.
std::string ranksOf(ModuleOp module, graph::StateOp state, const Tensor &got, const Tensor &expected,
                    double size) {
  auto mesh = parallel::getMesh(module);
  auto sharding = state->getAttrOfType<parallel::ShardingAttr>(parallel::kSharding);
  if (!mesh || !sharding || got.shape != expected.shape)
    return "";
  std::vector<int64_t> shape = cast<RankedTensorType>(state.getType()).getShape().vec();
  std::set<int64_t> wrong;
  auto axes = parallel::getAxes(sharding);
  std::vector<int64_t> strides = expected.strides();
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (!differs(got.data[i], expected.data[i], size))
      continue;
    for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
      bool holds = true;
      int64_t rest = i;
      for (size_t d = 0; d < shape.size(); ++d) {
        int64_t at = rest / strides[d], part = 0;
        rest %= strides[d];
        for (StringAttr axis : axes[d]) {
          int64_t stride = 1, index = mesh.getIndex(axis.getValue());
          for (size_t k = index + 1; k < mesh.getSizes().size(); ++k)
            stride *= mesh.getSizes()[k];
          part = part * mesh.getSizes()[index] + rank / stride % mesh.getSizes()[index];
        }
        holds &= axes[d].empty() || at / (shape[d] / parallel::getGroupSize(mesh, axes[d])) == part;
      }
      if (holds)
        wrong.insert(rank);
    }
    if (static_cast<int64_t>(wrong.size()) == mesh.getNumRanks())
      return "all ranks";
  }
  std::string text;
  for (int64_t rank : wrong)
    text += (text.empty() ? "ranks " : ", ") + std::to_string(rank);
  return text;
}

} // namespace

// Counts the wrong outputs of an inference and names the first three.
static std::string describeResults(const Outcome &got, const Reference &reference) {
  std::string names;
  size_t wrong = 0;
  for (const auto &[name, expected] : reference.exact.results) {
    auto found = got.results.find(name);
    if (found != got.results.end() && resultError({*found}, {{name, expected}}).value <= 1e-10)
      continue;
    if (++wrong <= 3)
      names += (names.empty() ? "" : ", ") + name;
  }
  return std::to_string(wrong) + " of " + std::to_string(reference.exact.results.size()) +
         " outputs are wrong: " + names + (wrong > 3 ? ", ..." : "");
}

std::string describeFaultLocation(ModuleOp module, const Outcome &got, const Reference &reference) {
  if (!got.results.empty())
    return describeResults(got, reference);
  if (got.losses.empty())
    return "";
  NamedTensors expected = statesFromSources(module, reference.exact.gradients);
  NamedTensors own = statesFromSources(module, got.gradients);
  double floor = 0; // A gradient that is exactly zero leaves nothing but rounding errors.
  for (const auto &[name, tensor] : expected)
    floor = std::max(floor, 1e-3 * largest(tensor));
  graph::StateOp last;
  bool afterFirst = false;
  for (auto state : module.getOps<graph::StateOp>()) {
    if (state.getRole() != graph::Role::parameter)
      continue;
    const Tensor &a = own[state.getSymName().str()], &b = expected[state.getSymName().str()];
    double size = std::max(floor, largest(b));
    bool wrong = a.shape != b.shape;
    for (int64_t i = 0; !wrong && i < b.size(); ++i)
      wrong = differs(a.data[i], b.data[i], size);
    if (wrong && (!last || afterFirst))
      last = state;
    afterFirst = true;
  }
  bool forward = relativeError(got.losses[0], reference.exact.losses[0]) > 1e-10;
  std::string text = forward ? "the loss is wrong" : "the loss is right";
  if (!last)
    return text + (forward ? "" : ", gradients too; the update is wrong");
  std::string name = last.getSymName().str();
  std::string source = name;
  if (last.getViews() && !last.getViews()->empty())
    source = cast<graph::ViewAttr>((*last.getViews())[0]).getSource().getValue().str();
  text += forward ? ", and the gradient of " + source : ", the gradient of " + source + " not";
  if (std::string reader = readerOf(module, name); !reader.empty())
    text += ", read by " + reader;
  if (std::string ranks = ranksOf(module, last, own[name], expected[name],
                                  std::max(floor, largest(expected[name])));
      !ranks.empty())
    text += ", on " + ranks;
  return text;
}

} // namespace llmc::verify
