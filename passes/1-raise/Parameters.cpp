#include "passes/1-raise/Parameters.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

static constexpr StringLiteral kState = "graph.state";

static func::FuncOp ownerOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
}

bool raise::isParameter(Value value) {
  auto func = ownerOf(value);
  return func && func.getArgAttr(cast<BlockArgument>(value).getArgNumber(), kState);
}

raise::Extents raise::extentsOf(ViewAttr view, ArrayRef<int64_t> shape) {
  Extents extents;
  for (auto [stride, size] : llvm::zip(view.getStrides(), shape))
    if (size != 1)
      extents.push_back({stride, size});
  return extents;
}

raise::Parameters::Parameters(func::FuncOp func)
    : func(func), module(func->getParentOfType<ModuleOp>()), symbols(module) {}

StateOp raise::Parameters::stateOf(Value value) {
  auto owner = ownerOf(value);
  if (!owner || owner != func)
    return {};
  auto name =
      func.getArgAttrOfType<FlatSymbolRefAttr>(cast<BlockArgument>(value).getArgNumber(), kState);
  return name ? symbols.lookup<StateOp>(name.getValue()) : StateOp();
}

ViewAttr raise::Parameters::viewOf(Value value) {
  StateOp state = stateOf(value);
  if (!state || state.getStacked() || !state.getViews() || state.getViews()->size() != 1)
    return {};
  return cast<ViewAttr>((*state.getViews())[0]);
}

BlockArgument raise::Parameters::add(RankedTensorType type, ArrayRef<ViewAttr> views, bool stacked,
                                     Location loc) {
  OpBuilder builder(func);
  auto *context = builder.getContext();
  SmallVector<Attribute> attributes(views.begin(), views.end());
  auto state = StateOp::create(builder, loc, builder.getStringAttr("s"), TypeAttr::get(type),
                               RoleAttr::get(context, Role::parameter), FlatSymbolRefAttr(),
                               builder.getArrayAttr(attributes),
                               stacked ? builder.getUnitAttr() : UnitAttr(), ArrayAttr());
  StringAttr name = symbols.insert(state);
  unsigned index = func.getNumArguments();
  auto attrs =
      builder.getDictionaryAttr(builder.getNamedAttr(kState, FlatSymbolRefAttr::get(name)));
  (void)func.insertArgument(index, type, attrs, loc);
  return func.getArgument(index);
}

void raise::Parameters::eraseUnused() {
  BitVector unused(func.getNumArguments());
  for (BlockArgument argument : func.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  (void)func.eraseArguments(unused);

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

// Arguments are moved by appending them again and erasing the old ones.
static void permuteArguments(func::FuncOp func, ArrayRef<BlockArgument> order) {
  unsigned count = func.getNumArguments();
  for (BlockArgument old : order) {
    DictionaryAttr attrs = func.getArgAttrDict(old.getArgNumber());
    (void)func.insertArgument(func.getNumArguments(), old.getType(), attrs, old.getLoc());
    old.replaceAllUsesWith(func.getArguments().back());
  }
  BitVector erased(func.getNumArguments());
  erased.set(0, count);
  (void)func.eraseArguments(erased);
}

void raise::Parameters::reorder(ArrayRef<BlockArgument> order) {
  permuteArguments(func, order);
  // Two rounds of names, so that no new name meets an old one.
  SmallVector<StateOp> states;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (StateOp state = stateOf(func.getArgument(i)))
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
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(i, kState))
      func.setArgAttr(i, kState, FlatSymbolRefAttr::get(renamed.at(name.getAttr())));

  for (Operation *source : sources)
    source->moveBefore(func);
  for (StateOp state : states)
    state->moveBefore(func);
  symbols = SymbolTable(module);
}
