// Binds the arguments and results of a stage's functions.
#include "dialects/graph/GraphAttrs.h"
#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/BuildProcedures/StageBuilder.h"

namespace llmc {

using namespace mlir;

BufferSlice StageBuilder::newRoot(Type type, plan::Space space, Attribute binding) {
  RootBuffer root;
  root.type = cast<RankedTensorType>(type);
  root.space = space;
  root.binding = binding;
  roots.push_back(root);
  return {static_cast<int>(roots.size()) - 1, 0};
}

// Returns the plan.buffer that names `place` as a tensor of `type`; declares it at the head of the
// stage on first use.
Value StageBuilder::buffer(BufferSlice place, Type type) {
  RootBuffer &root = roots[place.root];
  OpBuilder::InsertionGuard guard(b);
  auto declare = [&](Value parent, RankedTensorType tensor, int64_t displacement) -> Value {
    // Declarations come after all others, before the procedures.
    if (firstProcedure)
      b.setInsertionPoint(firstProcedure);
    else
      b.setInsertionPointToEnd(&stageOp.getBody().front());
    return plan::BufferOp::create(
        b, module.getLoc(), plan::BufferType::get(b.getContext(), tensor), parent,
        plan::SpaceAttr::get(b.getContext(), root.space),
        parent ? b.getI64IntegerAttr(displacement) : IntegerAttr(), IntegerAttr(), IntegerAttr(),
        parent ? Attribute() : root.binding,
        !parent && root.space == plan::Space::slot && chunk > 0 ? b.getI64IntegerAttr(chunk)
                                                                : IntegerAttr());
  };
  if (!root.buffer) {
    root.buffer = declare(Value(), root.type, 0);
    int64_t bytes = byteSize(root.type) / std::max<int64_t>(1, root.parts.size());
    for (auto [i, binding] : llvm::enumerate(root.parts)) {
      auto layer = RankedTensorType::get(root.type.getShape().drop_front(), root.type.getElementType());
      Value view = declare(root.buffer, layer, i * bytes);
      view.getDefiningOp<plan::BufferOp>().setBindingAttr(binding);
      views[{place.root, int64_t(i) * bytes, Type(layer).getAsOpaquePointer()}] = view;
    }
  }
  if (place.displacement == 0 && type == root.type)
    return root.buffer;
  Value &view = views[{place.root, place.displacement, type.getAsOpaquePointer()}];
  if (!view)
    view = declare(root.buffer, cast<RankedTensorType>(type), place.displacement);
  return view;
}

// Takes the layers of a state for those of its chunk, if no state before it has told.
void StageBuilder::noteLayers(int64_t first, int64_t count) {
  if (auto known = cast<plan::ChunkAttr>(layers[chunk]); known.getLastLayer() < known.getFirstLayer())
    layers[chunk] = plan::ChunkAttr::get(b.getContext(), first, first + count - 1);
}

// Returns the binding of a state; `held` are the layers of a stacked one.
plan::StateBindingAttr StageBuilder::stateBinding(FlatSymbolRefAttr symbol, graph::StateOp state,
                                                  DenseI64ArrayAttr held) {
  bool stacked = bool(held);
  auto global = cast<RankedTensorType>(state.getType());
  SmallVector<Attribute> dims;
  auto sharding = state->getAttrOfType<parallel::ShardingAttr>(parallel::kSharding);
  for (int64_t d = stacked; d < global.getRank(); ++d)
    dims.push_back(sharding ? sharding.getDims()[d] : b.getArrayAttr({}));
  SmallVector<int64_t> valid(global.getShape().drop_front(stacked));
  if (auto shape = state.getValidShape()) {
    valid.clear();
    for (Attribute size : shape->getValue().drop_front(stacked))
      valid.push_back(cast<IntegerAttr>(size).getInt());
  }
  bool owner = true; // of its layers; of a tied state the first holder
  auto stages = state->getAttrOfType<ArrayAttr>(parallel::kStages);
  if (!stacked && stages && !stages.empty())
    owner = cast<IntegerAttr>(stages[0]).getInt() == stage;
  return plan::StateBindingAttr::get(b.getContext(), symbol, state.getRole(), held,
                                     b.getArrayAttr(dims), b.getDenseI64ArrayAttr(valid), owner);
}

// Returns the persistent buffer of a state (of one chunk's layers, if stacked), made on first use.
BufferSlice StageBuilder::stateRoot(FlatSymbolRefAttr symbol, DictionaryAttr attrs,
                              RankedTensorType type) {
  auto range = attrs.getAs<DenseI64ArrayAttr>(parallel::kLayers);
  auto [it, isNew] = stateRoots.insert({{symbol.getAttr(), range ? range[0] : 0}, -1});
  if (!isNew)
    return {it->second, 0};
  auto state = symbols.lookup<graph::StateOp>(symbol.getAttr());
  // Accumulators and moments are stacked as their parameter is.
  auto parameter = state.getOfAttr()
                       ? symbols.lookup<graph::StateOp>(state.getOfAttr().getAttr())
                       : state;
  bool stacked = parameter && parameter.getStacked();
  DenseI64ArrayAttr held;
  auto global = cast<RankedTensorType>(state.getType());
  if (stacked) {
    // Without parallel.layers the stage holds all layers.
    int64_t first = range ? range[0] : 0, count = range ? range[1] : global.getDimSize(0);
    held = b.getDenseI64ArrayAttr({first, count});
    noteLayers(first, count);
  }
  auto binding = stateBinding(symbol, state, held);
  BufferSlice place = newRoot(type, plan::Space::persistent, binding);
  stateRoots[{symbol.getAttr(), range ? range[0] : 0}] = place.root;
  return place;
}

// Returns the binding of one layer of a flat tensor; `layer` is that of stacked states.
plan::FlatBindingAttr StageBuilder::flatBinding(parallel::FlatAttr flat,
                                                std::optional<int64_t> layer) {
  SmallVector<plan::FlatPartAttr> parts;
  for (parallel::FlatPartAttr part : flat.getParts()) {
    auto state = symbols.lookup<graph::StateOp>(part.getState().getAttr());
    auto held = layer ? b.getDenseI64ArrayAttr({*layer, 1}) : DenseI64ArrayAttr();
    SmallVector<int64_t> shape(part.getShape().asArrayRef());
    if (layer)
      shape.insert(shape.begin(), 1);
    parts.push_back(plan::FlatPartAttr::get(b.getContext(),
                                            stateBinding(part.getState(), state, held),
                                            part.getBegin(), b.getDenseI64ArrayAttr(shape)));
  }
  return plan::FlatBindingAttr::get(b.getContext(), flat.getAxisNames(), parts);
}

// Returns the persistent buffer of a flat tensor, made on first use. Of stacked states each layer
// is a view with a binding of its own.
BufferSlice StageBuilder::flatRoot(parallel::FlatAttr flat, DictionaryAttr attrs,
                                   RankedTensorType type) {
  auto range = attrs.getAs<DenseI64ArrayAttr>(parallel::kLayers);
  auto first = flat.getParts().front().getState().getAttr();
  auto [it, isNew] = stateRoots.insert({{first, range ? range[0] : 0}, -1});
  if (!isNew)
    return {it->second, 0};
  BufferSlice place = newRoot(type, plan::Space::persistent,
                              range ? Attribute() : flatBinding(flat, std::nullopt));
  stateRoots[{first, range ? range[0] : 0}] = place.root;
  if (range)
    noteLayers(range[0], range[1]);
  for (int64_t i = 0; range && i < range[1]; ++i)
    roots[place.root].parts.push_back(flatBinding(flat, range[0] + i));
  return place;
}

// Returns whether the weight gradients read a residual of the backward `func` that lies in a root.
bool StageBuilder::isReadLater(func::FuncOp func, int root) {
  func::FuncOp weight = functions.chunks[chunk].weight;
  if (!weight || func == weight)
    return false;
  for (unsigned i = 0; i < weight.getNumArguments(); ++i)
    if (auto id = weight.getArgAttrOfType<IntegerAttr>(i, parallel::kResidual))
      if (auto it = chunks[chunk].residuals.find(id.getInt());
          it != chunks[chunk].residuals.end() && it->second.root == root)
        return true;
  return false;
}

LogicalResult StageBuilder::bindArguments(func::FuncOp func, AssignmentInputs &known) {
  auto &bound = known.arguments;
  for (BlockArgument arg : func.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto attrs = func.getArgAttrDict(i);
    if (!attrs)
      attrs = b.getDictionaryAttr({});
    auto type = cast<RankedTensorType>(arg.getType());
    if (auto flat = attrs.getAs<parallel::FlatAttr>(parallel::kFlat)) {
      bound[arg] = flatRoot(flat, attrs, type);
    } else if (auto state = attrs.getAs<FlatSymbolRefAttr>(graph::kState)) {
      if (!symbols.lookup<graph::StateOp>(state.getAttr()))
        return func.emitError("argument ") << i << " is bound to unknown state " << state;
      bound[arg] = stateRoot(state, attrs, type);
    } else if (auto scalar = attrs.getAs<StringAttr>(graph::kScalar)) {
      BufferSlice &place = inputs[{-1, scalar.str()}];
      if (!place)
        place =
            newRoot(type, plan::Space::step, plan::ScalarBindingAttr::get(b.getContext(), scalar));
      bound[arg] = place;
    } else if (auto input = attrs.getAs<StringAttr>(graph::kInput)) {
      BufferSlice &place = inputs[{chunk, input.str()}];
      if (!place)
        place = newRoot(type, plan::Space::slot, inputBinding(input, attrs));
      bound[arg] = place;
    } else if (auto id = attrs.getAs<IntegerAttr>(parallel::kResidual)) {
      auto it = chunks[chunk].residuals.find(id.getInt());
      if (it == chunks[chunk].residuals.end())
        return func.emitError("argument ")
               << i << " is residual " << id.getInt() << ", which the forward does not produce";
      bound[arg] = it->second;
      // A residual is written anew for each micro-batch, and no procedure behind this one reads it.
      const RootBuffer &root = roots[it->second.root];
      if (root.space == plan::Space::slot && !root.binding && !sent.contains(it->second.root) &&
          !isReadLater(func, it->second.root))
        known.consumed.insert(it->second.root);
    } else if (attrs.getAs<IntegerAttr>(parallel::kStageBoundary) && func == functions.chunks[chunk].weight) {
      return func.emitError("argument ") << i << " is sent from another stage, which sends to backward alone";
    } else if (attrs.getAs<IntegerAttr>(parallel::kStageBoundary)) {
      known.received.push_back(arg);
    } else {
      return func.emitError("argument ") << i << " has no binding";
    }
    if (BufferSlice place = bound.lookup(arg))
      taken.insert(place.root);
  }
  return success();
}

// Returns the binding of an input: how the loader makes it, and its sharding unless only rows are
// cut, over the data axes.
plan::InputBindingAttr StageBuilder::inputBinding(StringAttr name, DictionaryAttr attrs) {
  auto loader = attrs.getAs<graph::LoaderAttr>(graph::kLoader);
  auto sharding = attrs.getAs<parallel::ShardingAttr>(parallel::kSharding);
  if (!sharding || sharding.getDims().empty())
    return plan::InputBindingAttr::get(b.getContext(), name, ArrayAttr(), loader);
  auto cutting = [&](ArrayRef<StringAttr> axes) {
    return llvm::to_vector(llvm::make_filter_range(
        axes, [&](StringAttr axis) { return mesh.getSize(axis.getValue()) > 1; }));
  };
  parallel::Axes data(mesh.getAxes(planfile::AxisRole::Data));
  SmallVector<Attribute> dims;
  bool rowsAlone = true;
  for (auto [d, axes] : llvm::enumerate(parallel::getAxes(sharding))) {
    bool usual = cutting(axes) == (d == 0 ? cutting(data) : SmallVector<StringAttr>());
    rowsAlone &= usual;
    ArrayRef<StringAttr> said = d == 0 && usual ? ArrayRef(data) : ArrayRef(axes);
    dims.push_back(b.getArrayAttr(SmallVector<Attribute>(said.begin(), said.end())));
  }
  return plan::InputBindingAttr::get(b.getContext(), name,
                                     rowsAlone ? ArrayAttr() : b.getArrayAttr(dims), loader);
}

// Returns the binding of an output: how the parts of an inference's result lie in the whole. The
// outputs of a training step are scalars.
plan::OutputBindingAttr StageBuilder::outputBinding(StringAttr name, DictionaryAttr attrs,
                                                    RankedTensorType type) {
  if (!parallel::isInference(module))
    return plan::OutputBindingAttr::get(b.getContext(), name, ArrayAttr(), DenseI64ArrayAttr());
  auto sharding = attrs.getAs<parallel::ShardingAttr>(parallel::kSharding);
  SmallVector<Attribute> dims(type.getRank(), b.getArrayAttr({}));
  SmallVector<int64_t> shape(type.getShape());
  for (auto [d, axes] : llvm::enumerate(sharding ? sharding.getDims() : ArrayRef<ArrayAttr>())) {
    dims[d] = axes;
    for (auto axis : axes.getAsRange<StringAttr>())
      shape[d] *= mesh.getSize(axis.getValue());
  }
  auto valid = attrs.getAs<DenseI64ArrayAttr>(parallel::kValidShape);
  return plan::OutputBindingAttr::get(b.getContext(), name, b.getArrayAttr(dims),
                                      valid ? valid : b.getDenseI64ArrayAttr(shape));
}

// Binds the parameters that nothing reads, so that a plan holds all of its model. Such a state is
// never stacked.
void StageBuilder::bindUnused() {
  for (auto state : module.getOps<graph::StateOp>()) {
    auto holders = state->getAttrOfType<ArrayAttr>(parallel::kStages);
    auto symbol = FlatSymbolRefAttr::get(state.getSymNameAttr());
    if (stateRoots.count({symbol.getAttr(), 0}) || state.getStacked() || !holders ||
        !llvm::is_contained(holders, b.getI64IntegerAttr(stage)))
      continue;
    auto type = cast<RankedTensorType>(state.getType());
    if (auto sharding = state->getAttrOfType<parallel::ShardingAttr>(parallel::kSharding))
      type = parallel::getLocalType(type, sharding, mesh);
    buffer(stateRoot(symbol, b.getDictionaryAttr({}), type), type);
  }
}

LogicalResult StageBuilder::bindResults(func::FuncOp func, AssignmentInputs &known) {
  Operation *ret = func.getBody().front().getTerminator();
  for (unsigned i = 0; i < ret->getNumOperands(); ++i) {
    auto attrs = func.getResultAttrDict(i);
    if (!attrs)
      attrs = b.getDictionaryAttr({});
    auto type = cast<RankedTensorType>(ret->getOperand(i).getType());
    BufferSlice place;
    bool escape = false;
    if (auto flat = attrs.getAs<parallel::FlatAttr>(parallel::kFlat))
      place = flatRoot(flat, attrs, type);
    else if (auto state = attrs.getAs<FlatSymbolRefAttr>(graph::kState))
      place = stateRoot(state, attrs, type);
    else if (auto output = attrs.getAs<StringAttr>(graph::kOutput))
      place = newRoot(type, plan::Space::step, outputBinding(output, attrs, type));
    else if (attrs.get(parallel::kResidual) || attrs.get(parallel::kStageBoundary))
      escape = true;
    else
      return func.emitError("result ") << i << " has no binding";
    known.returned.push_back(place);
    known.escapes.push_back(escape);
  }
  return success();
}

} // namespace llmc
