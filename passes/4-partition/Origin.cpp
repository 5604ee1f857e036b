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

// Returns the module around `value`.
static ModuleOp moduleOf(Value value) {
  return value.getParentRegion()->getParentOfType<ModuleOp>();
}

static DictionaryAttr recordedOrigin(Value value) {
  if (Operation *op = value.getDefiningOp())
    return op->getAttrOfType<DictionaryAttr>(kOrigin);
  auto arg = cast<BlockArgument>(value);
  auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
  return func ? func.getArgAttrOfType<DictionaryAttr>(arg.getArgNumber(), kOrigin)
              : DictionaryAttr();
}

// Returns the value outside of all repeats that a body argument is bound to; `value` if it is none.
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

// Returns the nearest name on the way back to the definition of `value`; empty if there is none.
static std::string nodeOf(Value value, int depth = 0) {
  value = outside(value);
  if (auto arg = dyn_cast<BlockArgument>(value))
    if (auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp())) {
      auto state = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
      auto layers = func.getArgAttrOfType<DenseI64ArrayAttr>(arg.getArgNumber(), kLayers);
      if (state)
        return getStateName(func->getParentOfType<ModuleOp>(), state.getValue(),
                            layers ? layers[0] : 0);
      for (StringRef key : {StringRef(kInput), StringRef(kScalar)})
        if (auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), key))
          return name.str();
    }
  std::string name = getNodeName(value.getLoc()).str();
  Operation *op = value.getDefiningOp();
  for (unsigned i = 0; name.empty() && op && depth < 16 && i < op->getNumOperands(); ++i)
    name = nodeOf(op->getOperand(i), depth + 1);
  return name;
}

DictionaryAttr llmc::makeOrigin(Value value, ArrayRef<StringAttr> axes, StringRef fallback) {
  MLIRContext *context = value.getContext();
  std::string tactic = axes.empty() ? "" : getTactic(moduleOf(value), axes.front()).str();
  std::string rule = fallback.str(), node = nodeOf(value), seed;
  // Names a constant by the other operands of its users.
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
    if (auto text = entry.getAs<StringAttr>("seed"))
      seed = text.str();
    break;
  }
  if (node.empty())
    node = seed;
  if (node.empty())
    node = "unnamed";
  auto text = [&](StringRef s) { return StringAttr::get(context, s); };
  NamedAttrList fields;
  for (auto [name, value] : {std::pair("node", node), {"rule", rule}, {"tactic", tactic}, {"seed", seed}})
    if (!value.empty())
      fields.set(name, text(value));
  return fields.getDictionary(context);
}

void llmc::setOriginField(Operation *op, StringRef name, const Twine &text) {
  NamedAttrList fields(op->getAttrOfType<DictionaryAttr>(kOrigin));
  fields.set(name, StringAttr::get(op->getContext(), text));
  op->setAttr(kOrigin, fields.getDictionary(op->getContext()));
}

DictionaryAttr llmc::describeTensor(Type type, ArrayRef<std::string> names, ShardingAttr layout,
                                    ShardingAttr needed) {
  Builder b(type.getContext());
  SmallVector<Attribute> list;
  for (const std::string &name : names)
    list.push_back(b.getStringAttr(name));
  NamedAttrList fields;
  if (!list.empty())
    fields.set("names", b.getArrayAttr(list));
  fields.set("type", TypeAttr::get(type));
  fields.set("layout", layout);
  if (needed)
    fields.set("needed", needed);
  return fields.getDictionary(type.getContext());
}

// Returns the names of a repeat's body argument, one per layer.
static std::vector<std::string> namesOfArgument(graph::RepeatOp repeat, unsigned index,
                                                const SymbolTable &symbols) {
  int64_t count = repeat.getCount();
  Value operand = repeat->getOperand(index);
  bool isCarried = index < repeat.getCarried().size();
  bool isStacked = !isCarried && index < repeat.getCarried().size() + repeat.getStacked().size();
  std::vector<std::string> names = namesOf(operand, symbols);
  if (!isCarried)
    return isStacked || names.size() < 2 ? names : std::vector<std::string>{names.front()};
  // The first layer gets a carried value from outside, each later one from the layer before. What
  // layers only pass on may be a cycle, and has no single name.
  Value yielded = repeat.getBlock().getTerminator()->getOperand(index);
  if (isa<BlockArgument>(yielded))
    return {};
  std::vector<std::string> made = namesOf(yielded, symbols);
  if (int64_t(made.size()) != count || names.empty())
    return {};
  for (int64_t i = 0; i + 1 < count; ++i) {
    int64_t at = repeat.getReverse() ? i : count - 1 - i;
    made[at] = made[repeat.getReverse() ? at + 1 : at - 1];
  }
  made[repeat.getReverse() ? count - 1 : 0] = names.front();
  return made;
}

std::vector<std::string> llmc::namesOf(Value value, const SymbolTable &symbols) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    Operation *parent = arg.getOwner()->getParentOp();
    if (auto repeat = dyn_cast<graph::RepeatOp>(parent))
      return namesOfArgument(repeat, arg.getArgNumber(), symbols);
    auto func = cast<func::FuncOp>(parent);
    auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(arg.getArgNumber(), kState);
    auto state = name ? symbols.lookup<graph::StateOp>(name.getAttr()) : graph::StateOp();
    if (state && state.getOf())
      state = symbols.lookup<graph::StateOp>(*state.getOf());
    if (state && state.getViews()) {
      std::vector<std::string> names;
      for (auto view : state.getViews()->getAsRange<graph::ViewAttr>())
        names.push_back(view.getSource().getValue().str());
      return names;
    }
  } else if (auto repeat = value.getDefiningOp<graph::RepeatOp>()) {
    return namesOf(repeat.getBlock().getTerminator()->getOperand(cast<OpResult>(value).getResultNumber()), symbols);
  }
  std::vector<std::string> names;
  if (auto fused = dyn_cast<FusedLoc>(value.getLoc());
      fused && isa_and_nonnull<StringAttr>(fused.getMetadata()))
    for (Location layer : fused.getLocations()) // one per layer
      names.push_back(getNodeName(layer).str());
  else if (std::string name = nodeOf(value); !name.empty())
    names.push_back(name);
  return names;
}
