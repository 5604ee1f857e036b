// Writes what is bound to a stage's arena from outside: states, inputs, scalars, outputs.
#include "passes/6-emit/planfile/PlanWriter.h"

#include "dialects/parallel/Annotations.h"
#include "lib/planfile/HostScalars.h"
#include "lib/planfile/Inputs.h"
#include "llvm/Support/InterleavedRange.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace llmc::emit {

using namespace planfile;

static StateRole roleOf(graph::Role role) {
  switch (role) {
  case graph::Role::parameter:
    return StateRole::Parameter;
  case graph::Role::master:
    return StateRole::Master;
  case graph::Role::moment1:
    return StateRole::Moment1;
  case graph::Role::moment2:
    return StateRole::Moment2;
  case graph::Role::accumulator:
    return StateRole::Accumulator;
  }
  return StateRole::Parameter;
}

// Returns the state whose views `state` has: its parameter, or itself.
static graph::StateOp viewedState(SymbolTable &symbols, graph::StateOp state) {
  if (auto of = state.getOfAttr())
    if (auto parameter = symbols.lookup<graph::StateOp>(of.getAttr()))
      return parameter;
  return state;
}

// Returns the view of a parameter's layer (and expert); null for what belongs to no parameter.
// Fails with a diagnostic on a view or source that does not exist.
FailureOr<std::unique_ptr<ViewT>> PlanWriter::viewOf(Operation *at, graph::StateOp state,
                                                     size_t layer) {
  state = viewedState(symbols, state);
  auto views = state.getViews();
  if (!views)
    return std::unique_ptr<ViewT>();
  if (layer >= views->size())
    return at->emitOpError("binds view ") << layer << " of a state with " << views->size();
  auto attribute = cast<graph::ViewAttr>((*views)[layer]);
  auto source = sources.find(attribute.getSource().getValue());
  if (source == sources.end())
    return at->emitOpError("views unknown source ") << attribute.getSource();
  auto view = std::make_unique<ViewT>();
  view->source = source->second;
  view->offset = attribute.getOffset();
  view->strides = attribute.getStrides().vec();
  return view;
}

FailureOr<std::vector<uint32_t>> PlanWriter::axesNamed(Operation *op, ArrayRef<StringAttr> axes) {
  std::vector<uint32_t> indices;
  for (StringAttr axis : axes) {
    auto index = axisNamed(op, axis.getValue());
    if (failed(index))
      return failure();
    indices.push_back(*index);
  }
  return indices;
}

// Returns the mesh axes of each dimension by index, from those by name.
FailureOr<std::vector<std::unique_ptr<DimShardingT>>> PlanWriter::dimsOf(Operation *op,
                                                                         ArrayAttr dims) {
  std::vector<std::unique_ptr<DimShardingT>> result;
  for (auto names : dims.getAsRange<ArrayAttr>()) {
    auto axes = axesNamed(op, llvm::to_vector(names.getAsRange<StringAttr>()));
    if (failed(axes))
      return failure();
    result.push_back(std::make_unique<DimShardingT>());
    result.back()->axes = std::move(*axes);
  }
  return result;
}

// Checks a binding against the state that it names: one role, and dims, shard and valid shape as
// its sharding tells, if it has one. Padding would hide other cuts, which no rank would miss.
LogicalResult PlanWriter::verifyBinding(plan::BufferOp op, plan::StateBindingAttr binding,
                                        graph::StateOp state, ArrayRef<int64_t> local) {
  if (binding.getRole() != state.getRole())
    return op.emitOpError("binds ") << binding.getState() << " as "
                                    << graph::stringifyRole(binding.getRole())
                                    << ", its role is " << graph::stringifyRole(state.getRole());
  auto sharding = state->getAttrOfType<parallel::ShardingAttr>(parallel::kSharding);
  if (!sharding)
    return success();
  bool stacked = binding.isStacked();
  ArrayRef<int64_t> global = cast<RankedTensorType>(state.getType()).getShape();
  if (!llvm::equal(binding.getDims().getAsRange<ArrayAttr>(),
                   sharding.getDims().drop_front(stacked)) ||
      ArrayRef(sharding.getLocalShape(global, mesh)).drop_front(stacked) != local)
    return op.emitOpError("binds ") << binding.getState() << " as " << binding
                                    << " with a shard of " << llvm::interleaved_array(local)
                                    << ", it is " << state.getType() << " cut as " << sharding;
  SmallVector<int64_t> valid(global.drop_front(stacked));
  if (auto shape = state.getValidShape())
    valid = llvm::map_to_vector(shape->getAsValueRange<IntegerAttr>(),
                                [](const APInt &size) { return size.getSExtValue(); });
  if (binding.getValidShape().asArrayRef() != ArrayRef(valid).take_back(local.size()))
    return op.emitOpError("binds ") << binding.getState() << " with valid_shape "
                                    << binding.getValidShape() << ", it has "
                                    << llvm::interleaved_array(valid);
  return success();
}

// Returns one shard, or one per layer of a stacked state, of which there may be one per expert.
// An expert's is held by the ranks that have its part of the experts. Fails with a diagnostic on
// a malformed binding.
FailureOr<PlanWriter::Shards> PlanWriter::shardsOf(plan::BufferOp op,
                                                   plan::StateBindingAttr binding,
                                                   ArrayRef<int64_t> shape) {
  auto state = symbols.lookup<graph::StateOp>(binding.getState().getAttr());
  if (!state)
    return op.emitOpError("binds an unknown state ") << binding.getState();
  bool stacked = binding.isStacked();
  DenseI64ArrayAttr valid = binding.getValidShape();
  if (binding.getDims().size() + stacked != shape.size())
    return op.emitOpError("a state's binding needs dims and valid_shape of rank ")
           << static_cast<int64_t>(shape.size()) - stacked;
  ArrayRef<int64_t> local = shape.drop_front(stacked);
  int64_t layers = binding.getNumLayers();
  if (stacked && layers != shape[0])
    return op.emitOpError("binds ") << layers << " layers of a stacked state, its buffer has "
                                    << shape[0];
  if (failed(verifyBinding(op, binding, state, local)))
    return failure();
  bool isSplit = viewedState(symbols, state).getViewedDims() > stacked;
  int64_t experts = isSplit ? valid[0] : 1, held = isSplit ? local[0] : 1;
  int64_t skipped = isSplit ? 1 : 0;
  StringRef name = state.getOf() ? *state.getOf() : state.getSymName();
  Shards shards;
  for (int64_t i = 0; i < layers * experts; ++i) {
    int64_t layer = binding.getFirstLayer() + i / experts, expert = i % experts;
    auto cuts = dimsOf(op, binding.getDims());
    if (failed(cuts))
      return failure();
    auto view = viewOf(op, state, layer * experts + expert);
    if (failed(view))
      return failure();
    auto shard = std::make_unique<StateShardT>();
    shard->name = name.str();
    if (stacked)
      shard->name += "[" + std::to_string(layer) + "]";
    shard->role = roleOf(state.getRole());
    shard->dtype = dtypeOf(cast<plan::BufferType>(op.getType()).getTensor().getElementType());
    shard->global_shape = valid.asArrayRef().drop_front(skipped).vec();
    shard->local_shape = local.drop_front(skipped).vec();
    if (isSplit) {
      shard->name += "[" + std::to_string(expert) + "]";
      shard->only_axes = cuts->front()->axes;
      shard->only_at = static_cast<uint32_t>(expert / held);
      cuts->erase(cuts->begin());
    }
    shard->dims = std::move(*cuts);
    shard->view = std::move(*view);
    shard->buffer = bufferRef(op.getResult());
    shard->buffer->size /= layers * held;
    shard->buffer->offset += (i / experts * held + expert % held) * shard->buffer->size;
    shard->owner = binding.getOwner();
    shards.push_back(std::move(shard));
  }
  return shards;
}

LogicalResult PlanWriter::writeState(plan::BufferOp op, plan::StateBindingAttr binding,
                                     StageT &stage) {
  auto shape = cast<plan::BufferType>(op.getType()).getTensor().getShape();
  FailureOr<Shards> shards = shardsOf(op, binding, shape);
  if (failed(shards))
    return failure();
  llvm::move(*shards, std::back_inserter(stage.states));
  return success();
}

// Writes a flat buffer, and the tensors of which it holds a range.
LogicalResult PlanWriter::writeFlat(plan::BufferOp op, plan::FlatBindingAttr binding,
                                    StageT &stage) {
  auto type = cast<plan::BufferType>(op.getType()).getTensor();
  auto axes = axesNamed(op, binding.getAxes());
  if (failed(axes))
    return failure();
  auto group = std::make_unique<FlatGroupT>();
  group->axes = std::move(*axes);
  group->length = type.getNumElements();
  group->dtype = dtypeOf(type.getElementType());
  group->buffer = bufferRef(op.getResult());
  for (plan::FlatPartAttr part : binding.getParts()) {
    FailureOr<Shards> shards = shardsOf(op, part.getState(), part.getShape());
    if (failed(shards))
      return failure();
    if (part.getState().getNumLayers() != 1)
      return op.emitOpError("holds several layers in one part of a flat buffer");
    // Experts of a part lie one behind the other; those of other ranks have the same places there.
    int64_t elements = ShapedType::getNumElements(part.getShape());
    for (auto &shard : *shards) {
      int64_t own = ShapedType::getNumElements(shard->local_shape), held = own ? elements / own : 1;
      int64_t expert = &shard - shards->data();
      shard->buffer = bufferRef(op.getResult());
      shard->flat = std::make_unique<FlatPartT>();
      shard->flat->group = stage.flat_groups.size();
      shard->flat->begin = part.getBegin() + expert % held * own;
      stage.states.push_back(std::move(shard));
    }
  }
  stage.flat_groups.push_back(std::move(group));
  return success();
}

// Returns what an input holds if the user gives none.
static InputDefault defaultOf(graph::LoaderAttr loader) {
  switch (loader ? loader.getDefaultValue() : graph::InputDefault::required) {
  case graph::InputDefault::required:
    return InputDefault::Required;
  case graph::InputDefault::zeros:
    return InputDefault::Zeros;
  case graph::InputDefault::ones:
    return InputDefault::Ones;
  case graph::InputDefault::positions:
    return InputDefault::Positions;
  case graph::InputDefault::row_ids:
    return InputDefault::RowIds;
  case graph::InputDefault::dropout_keys:
    return InputDefault::DropoutKeys;
  }
  return InputDefault::Required;
}

// Records over which axes dim `dim` of an input is sharded: dim 0 (rows) in `batch_axes`, the
// others in `dims`, which ends with the last sharded one.
static void addCut(InputBindingT &input, size_t dim, std::vector<uint32_t> axes) {
  if (dim == 0) {
    input.batch_axes = std::move(axes);
  } else if (!axes.empty()) {
    while (input.dims.size() < dim)
      input.dims.push_back(std::make_unique<DimShardingT>());
    input.dims[dim - 1]->axes = std::move(axes);
  }
}

// Writes what the loader does with an input. Fails with a diagnostic if it does not fit.
LogicalResult PlanWriter::writeLoader(Operation *at, graph::LoaderAttr loader,
                                      InputBindingT &input) {
  input.default_value = defaultOf(loader);
  if (!loader || !loader.isPermuted())
    return success();
  std::vector<int64_t> whole = planfile::wholeShape(*program.mesh, input);
  if (std::string fault = loader.describeMisfit(whole, /*isShard=*/false); !fault.empty())
    return at->emitError("input '") << input.name << "': " << fault << ", got " << loader;
  input.permuted_dim = loader.getPermutedDim();
  ArrayRef<int64_t> order = loader.getBlockOrder();
  input.block_order.assign(order.begin(), order.end());
  return success();
}

// Returns whether ranks get the same elements of both. Axes of size 1 shard nothing.
bool PlanWriter::loadAlike(const InputBindingT &a, const InputBindingT &b) const {
  auto axesOf = [&](const InputBindingT &input, size_t d) {
    std::vector<uint32_t> axes = d == 0                     ? input.batch_axes
                                 : d <= input.dims.size() ? input.dims[d - 1]->axes
                                                            : std::vector<uint32_t>();
    std::erase_if(axes, [&](uint32_t axis) { return program.mesh->axes[axis]->size == 1; });
    return axes;
  };
  for (size_t d = 0; d < a.local_shape.size(); ++d)
    if (axesOf(a, d) != axesOf(b, d))
      return false;
  return a.default_value == b.default_value && a.permuted_dim == b.permuted_dim &&
         a.block_order == b.block_order;
}

LogicalResult PlanWriter::writeInput(plan::BufferOp op, plan::InputBindingAttr binding) {
  StringRef name = binding.getInput();
  auto type = cast<plan::BufferType>(op.getType()).getTensor();
  auto input = std::make_unique<InputBindingT>();
  input->name = name.str();
  input->dtype = dtypeOf(type.getElementType());
  input->local_shape = type.getShape().vec();
  for (StringAttr axis : mesh.getAxes(AxisRole::Data))
    if (type.getRank() > 0)
      input->batch_axes.push_back(mesh.getIndex(axis.getValue()));
  if (binding.getDims()) {
    auto cuts = dimsOf(op, binding.getDims());
    if (failed(cuts))
      return failure();
    for (auto [d, cut] : llvm::enumerate(*cuts))
      addCut(*input, d, std::move(cut->axes));
  }
  if (failed(writeLoader(op, binding.getLoader(), *input)))
    return failure();
  auto [it, isNew] = inputs.try_emplace(name, program.inputs.size());
  if (isNew) {
    program.inputs.push_back(std::move(input));
    return success();
  }
  const InputBindingT &known = *program.inputs[it->second];
  StringRef where = program.mode == Mode::Infer ? "in graph.inputs" : "on an earlier stage";
  if (known.local_shape != input->local_shape || known.dtype != input->dtype)
    return op.emitOpError("input '") << name << "' has another type " << where;
  if (!loadAlike(known, *input))
    return op.emitOpError("input '") << name << "' is made, cut or permuted otherwise " << where;
  return success();
}

// Writes all inputs of an inference, in the model's order; the parts that ranks read are those
// of `graph.inputs`.
LogicalResult PlanWriter::listInputs() {
  auto list = module->getAttrOfType<ArrayAttr>(graph::kInputs);
  if (!list)
    return success();
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    auto name = entry.getAs<StringAttr>("name");
    auto type = entry.getAs<TypeAttr>("type");
    auto sharding = entry.getAs<parallel::ShardingAttr>("sharding");
    if (!name || !type || !sharding)
      return module.emitError("graph.inputs needs name, type and sharding, got ") << entry;
    auto global = cast<RankedTensorType>(type.getValue());
    auto input = std::make_unique<InputBindingT>();
    input->name = name.str();
    input->dtype = dtypeOf(global.getElementType());
    input->global_shape = global.getShape().vec();
    SmallVector<int64_t> local = sharding.getLocalShape(global.getShape(), mesh);
    input->local_shape.assign(local.begin(), local.end());
    for (auto [d, axes] : llvm::enumerate(parallel::getAxes(sharding))) {
      std::vector<uint32_t> indices;
      for (StringAttr axis : axes)
        indices.push_back(mesh.getIndex(axis.getValue()));
      addCut(*input, d, std::move(indices));
    }
    if (failed(writeLoader(module, entry.getAs<graph::LoaderAttr>("loader"), *input)))
      return failure();
    if (auto limit = entry.getAs<IntegerAttr>("limit"))
      input->limit = limit.getInt();
    inputs[input->name] = program.inputs.size();
    program.inputs.push_back(std::move(input));
  }
  return success();
}

LogicalResult PlanWriter::writeResult(plan::BufferOp op, plan::OutputBindingAttr binding,
                                      StageT &stage) {
  auto type = cast<plan::BufferType>(op.getType()).getTensor();
  DenseI64ArrayAttr valid = binding.getValidShape();
  if (!valid || valid.size() != type.getRank())
    return op.emitOpError("a result's binding needs dims and valid_shape of rank ") << type.getRank();
  auto result = std::make_unique<OutputBindingT>();
  result->name = binding.getOutput().str();
  result->dtype = dtypeOf(type.getElementType());
  result->global_shape = valid.asArrayRef().vec();
  result->local_shape = type.getShape().vec();
  auto cuts = dimsOf(op, binding.getDims());
  if (failed(cuts))
    return failure();
  result->dims = std::move(*cuts);
  result->buffer = bufferRef(op.getResult());
  stage.results.push_back(std::move(result));
  return success();
}

LogicalResult PlanWriter::writeBinding(plan::BufferOp buffer, StageT &stage) {
  auto add = [&](auto &list, auto entry, StringAttr name) {
    entry->name = name.str();
    entry->buffer = bufferRef(buffer.getResult());
    list.push_back(std::move(entry));
    return success();
  };
  return llvm::TypeSwitch<Attribute, LogicalResult>(buffer.getBindingAttr())
      .Case([&](plan::StateBindingAttr state) { return writeState(buffer, state, stage); })
      .Case([&](plan::FlatBindingAttr flat) { return writeFlat(buffer, flat, stage); })
      .Case([&](plan::InputBindingAttr input) { return writeInput(buffer, input); })
      .Case([&](plan::ScalarBindingAttr scalar) -> LogicalResult {
        if (!llvm::is_contained(kHostScalars, std::string_view(scalar.getScalar().getValue())))
          return buffer.emitOpError("binds unknown scalar ")
                 << scalar.getScalar() << "; the host knows " << llvm::interleaved(kHostScalars);
        return add(stage.host_scalars, std::make_unique<HostScalarT>(), scalar.getScalar());
      })
      .Case([&](plan::OutputBindingAttr output) {
        if (program.mode == Mode::Infer)
          return writeResult(buffer, output, stage);
        return add(stage.outputs, std::make_unique<StepOutputT>(), output.getOutput());
      });
}

LogicalResult PlanWriter::writeBindings(plan::StageOp op, StageT &stage) {
  for (auto buffer : op.getBody().getOps<plan::BufferOp>())
    if (buffer.getBindingAttr() && failed(writeBinding(buffer, stage)))
      return failure();
  return success();
}

} // namespace llmc::emit
