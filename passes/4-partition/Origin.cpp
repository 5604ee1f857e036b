#include "passes/4-partition/Origin.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

std::string llmc::getStateName(ModuleOp module, StringRef symbol, int64_t first) {
  auto state = module.lookupSymbol<graph::StateOp>(symbol);
  if (state && state.getOf())
    return getStateName(module, *state.getOf(), first);
  if (state && state.getViews() && !state.getViews()->empty()) {
    ArrayAttr views = *state.getViews();
    auto view = cast<graph::ViewAttr>(views[std::min<int64_t>(first, views.size() - 1)]);
    return view.getSource().getValue().str();
  }
  StringRef name = state ? getNodeName(state.getLoc()) : StringRef();
  return name.empty() ? symbol.str() : name.str();
}

// The tactic that assigns an axis, where nobody recorded it.
static StringRef tacticOf(StringRef axis) {
  return axis == "dp" ? "data" : axis == "pp" ? "stages" : "tensor";
}

static DictionaryAttr recordedOrigin(Value value) {
  if (Operation *op = value.getDefiningOp())
    return op->getAttrOfType<DictionaryAttr>(kOrigin);
  auto arg = cast<BlockArgument>(value);
  auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
  return func ? func.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(), kOrigin)
              : DictionaryAttr();
}

// The argument of the function that a body argument comes from, if any.
static Value outside(Value value) {
  auto arg = dyn_cast<BlockArgument>(value);
  while (arg) {
    auto repeat = dyn_cast<graph::RepeatOp>(arg.getOwner()->getParentOp());
    if (!repeat)
      break;
    value = repeat->getOperand(arg.getArgNumber());
    arg = dyn_cast<BlockArgument>(value);
  }
  return value;
}

// The nearest name on the way to where `value` comes from.
static std::string nodeOf(Value value, int depth = 0) {
  value = outside(value);
  if (auto arg = dyn_cast<BlockArgument>(value))
    if (auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp())) {
      auto state = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
      auto layers = func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), kLayers);
      if (state)
        return getStateName(func->getParentOfType<ModuleOp>(), state.getValue(),
                            layers ? layers[0] : 0);
      if (auto input = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), kInput))
        return input.str();
    }
  std::string name = getNodeName(value.getLoc()).str();
  Operation *op = value.getDefiningOp();
  for (unsigned i = 0; name.empty() && op && depth < 16 && i < op->getNumOperands(); ++i)
    name = nodeOf(op->getOperand(i), depth + 1);
  return name;
}

DictionaryAttr llmc::makeOrigin(Value value, ArrayRef<StringAttr> axes, StringRef fallback) {
  MLIRContext *context = value.getContext();
  std::string tactic = axes.empty() ? "" : tacticOf(axes.front().getValue()).str();
  std::string rule = fallback.str(), node = nodeOf(value);
  // A constant is known by what it is used with.
  for (Operation *user : value.getUsers())
    for (Value other : user->getOperands())
      if (node.empty() && other != value)
        node = nodeOf(other);
  DictionaryAttr recorded = recordedOrigin(value);
  for (StringAttr axis : axes) {
    auto entry = recorded ? recorded.getAs<DictionaryAttr>(axis) : DictionaryAttr();
    if (!entry)
      continue;
    if (auto text = entry.getAs<StringAttr>("tactic"))
      tactic = text.str();
    if (auto text = entry.getAs<StringAttr>("rule"))
      rule = text.str();
    if (auto text = entry.getAs<StringAttr>("seed"); text && node.empty())
      node = text.str();
    break;
  }
  if (node.empty())
    node = "unnamed";
  auto text = [&](StringRef s) { return StringAttr::get(context, s); };
  return DictionaryAttr::get(context, {NamedAttribute(text("node"), text(node)),
                                       NamedAttribute(text("rule"), text(rule)),
                                       NamedAttribute(text("tactic"), text(tactic))});
}
