#include "passes/1-raise/Parameters.h"
#include "dialects/graph/GraphAttrs.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

using llmc::graph::kState;

static func::FuncOp ownerOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
}

bool raise::isParameter(Value value) {
  auto func = ownerOf(value);
  return func && func.getArgAttr(cast<BlockArgument>(value).getArgNumber(), kState);
}

bool raise::dependsOnParameter(Value value) {
  llvm::SetVector<Value> behind;
  behind.insert(value);
  for (size_t i = 0; i < behind.size(); ++i) {
    if (isParameter(behind[i]))
      return true;
    if (Operation *op = behind[i].getDefiningOp())
      behind.insert(op->operand_begin(), op->operand_end());
  }
  return false;
}

bool raise::isInference(ModuleOp module) {
  auto mode = module->getAttrOfType<StringAttr>(graph::kMode);
  return mode && mode.getValue() == "infer";
}

raise::Extents raise::extentsOf(ViewAttr view, ArrayRef<int64_t> shape) {
  Extents extents;
  for (auto [stride, size] : llvm::zip(view.getStrides(), shape))
    if (size != 1)
      extents.push_back({stride, size});
  return extents;
}

raise::Parameters::Parameters(func::FuncOp func)
    : func(func), module(func->getParentOfType<ModuleOp>()), symbols(module) {
  func.getAllArgAttrs(attributes);
  // Without attributes there is no array of them.
  attributes.resize(func.getNumArguments(), DictionaryAttr::get(func.getContext()));
}

void raise::Parameters::commit() {
  if (!changed)
    return;
  func.setFunctionType(FunctionType::get(
      func.getContext(), func.getBody().front().getArgumentTypes(), func.getResultTypes()));
  func.setAllArgAttrs(attributes);
  changed = false;
}

StateOp raise::Parameters::stateOf(Value value) {
  auto owner = ownerOf(value);
  if (!owner || owner != func)
    return {};
  DictionaryAttr own = attributes[cast<BlockArgument>(value).getArgNumber()];
  auto name = own ? own.getAs<FlatSymbolRefAttr>(kState) : FlatSymbolRefAttr();
  return name ? symbols.lookup<StateOp>(name.getValue()) : StateOp();
}

SmallVector<ViewAttr> raise::Parameters::viewsOf(Value value) {
  StateOp state = stateOf(value);
  if (!state || state.getStacked() || !state.getViews())
    return {};
  return llvm::to_vector(state.getViews()->getAsRange<ViewAttr>());
}

ViewAttr raise::Parameters::viewOf(Value value) {
  StateOp state = stateOf(value);
  SmallVector<ViewAttr> views = viewsOf(value);
  return views.size() == 1 && state.getViewedDims() == 0 ? views[0] : ViewAttr();
}

BlockArgument raise::Parameters::add(RankedTensorType type, ArrayRef<ViewAttr> views, bool stacked,
                                     Location loc) {
  OpBuilder builder(func);
  auto *context = builder.getContext();
  SmallVector<Attribute> listed(views.begin(), views.end());
  auto state = StateOp::create(builder, loc, builder.getStringAttr("s"), TypeAttr::get(type),
                               RoleAttr::get(context, Role::parameter), FlatSymbolRefAttr(),
                               builder.getArrayAttr(listed),
                               stacked ? builder.getUnitAttr() : UnitAttr(), ArrayAttr());
  StringAttr name = symbols.insert(state);
  attributes.push_back(
      builder.getDictionaryAttr(builder.getNamedAttr(kState, FlatSymbolRefAttr::get(name))));
  changed = true;
  return func.getBody().front().addArgument(type, loc);
}

void raise::Parameters::eraseUnused() {
  commit();
  BitVector unused(func.getNumArguments());
  bool keepInputs = isInference(module);
  for (BlockArgument argument : func.getArguments())
    if (argument.use_empty() && !(keepInputs && !stateOf(argument)))
      unused.set(argument.getArgNumber());
  (void)func.eraseArguments(unused);
  attributes.clear();
  func.getAllArgAttrs(attributes);
  attributes.resize(func.getNumArguments(), DictionaryAttr::get(func.getContext()));

  llvm::DenseSet<StringAttr> bound, viewed;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(i, kState))
      bound.insert(name.getAttr());
  for (auto state : llvm::make_early_inc_range(module.getOps<StateOp>())) {
    if (!bound.contains(state.getSymNameAttr())) {
      symbols.erase(state);
      continue;
    }
    if (auto views = state.getViews())
      for (auto view : views->getAsRange<ViewAttr>())
        viewed.insert(view.getSource().getAttr());
  }
  for (auto source : llvm::make_early_inc_range(module.getOps<SourceOp>()))
    if (!viewed.contains(source.getSymNameAttr()))
      symbols.erase(source);
}

// Moves arguments by appending them again and erasing the old ones.
void raise::Parameters::permute(ArrayRef<BlockArgument> order) {
  Block &block = func.getBody().front();
  unsigned count = block.getNumArguments();
  SmallVector<DictionaryAttr> moved;
  for (BlockArgument old : order) {
    moved.push_back(attributes[old.getArgNumber()]);
    old.replaceAllUsesWith(block.addArgument(old.getType(), old.getLoc()));
  }
  block.eraseArguments(0, count);
  attributes = std::move(moved);
  changed = true;
}

void raise::Parameters::reorder(ArrayRef<BlockArgument> order) {
  permute(order);
  // Rename in two rounds, so that no new name meets an old one.
  SmallVector<StateOp> states;
  for (BlockArgument argument : func.getBody().front().getArguments())
    if (StateOp state = stateOf(argument))
      states.push_back(state);
  llvm::SetVector<Operation *> sources;
  Builder builder(func.getContext());
  for (StateOp state : states) {
    if (auto views = state.getViews())
      for (auto view : views->getAsRange<ViewAttr>())
        if (Operation *source = symbols.lookup(view.getSource().getValue()))
          sources.insert(source);
    symbols.remove(state);
  }
  llvm::DenseMap<StringAttr, StringAttr> renamed;
  for (auto [i, state] : llvm::enumerate(states)) {
    std::string name = "s" + std::to_string(i);
    while (symbols.lookup(name)) // a source may be called so
      name += "_";
    auto attr = builder.getStringAttr(name);
    renamed[state.getSymNameAttr()] = attr;
    state.setSymNameAttr(attr);
  }
  for (DictionaryAttr &own : attributes)
    if (auto name = own.getAs<FlatSymbolRefAttr>(kState)) {
      NamedAttrList list(own);
      list.set(kState, FlatSymbolRefAttr::get(renamed.at(name.getAttr())));
      own = list.getDictionary(func.getContext());
    }
  changed = true;
  commit();

  for (Operation *source : sources)
    source->moveBefore(func);
  for (StateOp state : states)
    state->moveBefore(func);
  symbols = SymbolTable(module);
}
