// Turns the functions of a stage into procedures over buffers.
//
// In three steps per stage: the places of arguments and results (bindings), the
// places of all other values (Places.cpp), then one instruction per op.
#include "passes/5-schedule/Passes.h"

#include "dialects/parallel/Annotations.h"
#include "passes/5-schedule/BuildProcedures/Origins.h"
#include "passes/5-schedule/BuildProcedures/Places.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace llmc {
#define GEN_PASS_DEF_BUILDPROCEDURES
#include "passes/5-schedule/Passes.h.inc"

#include <numeric>

using namespace mlir;
namespace {

// Streams: what may wait for a neighbour or for the whole group has its own queue.
enum Stream : int64_t { compute = 0, forwardSend = 2, backwardSend = 3 };
enum Event : int64_t { forwardReady, forwardSent, backwardReady, backwardSent };

bool isElementwise(Operation &op) {
  auto compute = dyn_cast<graph::GraphOpInterface>(op);
  return compute && compute.getEmitClass() == graph::EmitClass::Elementwise;
}

struct StageFunctions {
  func::FuncOp forward, backward, update; // of an inference the forward alone
};

class StageBuilder {
public:
  StageBuilder(ModuleOp module, int64_t stage, StageFunctions functions)
      : module(module), stage(stage), functions(functions), b(module.getContext()),
        mesh(module->getAttrOfType<parallel::MeshAttr>("parallel.mesh")) {}

  LogicalResult run();
  unsigned launches = 0, copies = 0;

private:
  using Bindings = std::vector<Place>;
  LogicalResult bindArguments(func::FuncOp func, Known &known);
  LogicalResult bindResults(func::FuncOp func, Known &known);
  LogicalResult buildProcedure(func::FuncOp func, plan::ProcedureKind kind);
  LogicalResult buildOp(Operation &op);
  LogicalResult buildLaunch(Operation &op);
  void buildCollective(Operation &op, plan::CollectiveKind kind, graph::ReduceKind reduce);
  void buildPrologue(func::FuncOp func, plan::ProcedureKind kind);
  void buildEpilogue(func::FuncOp func, plan::ProcedureKind kind, const Bindings &returned);
  void buildBegin();

  Place stateRoot(FlatSymbolRefAttr state, DictionaryAttr attrs, RankedTensorType type);
  Place newRoot(Type type, plan::Space space, DictionaryAttr binding = {});
  DictionaryAttr outputBinding(StringAttr name, DictionaryAttr attrs, RankedTensorType type);
  void bindUnused();
  Value buffer(Place place, Type type);
  Value bufferOf(Value value) { return buffer(places->lookup(value), value.getType()); }
  DictionaryAttr dict(std::initializer_list<std::pair<StringRef, Attribute>> entries) {
    SmallVector<NamedAttribute> named;
    for (auto [name, value] : entries)
      named.push_back(b.getNamedAttr(name, value));
    return b.getDictionaryAttr(named);
  }

  ModuleOp module;
  int64_t stage;
  StageFunctions functions;
  OpBuilder b;
  parallel::MeshAttr mesh;
  plan::StageOp stageOp;
  std::vector<Root> roots;
  std::map<std::tuple<int, int64_t, const void *>, Value> views;
  llvm::MapVector<StringAttr, int> stateRoots;
  std::map<std::string, Place> inputs;
  std::set<std::string> fed; // inputs that the forward of the stage brings in
  std::map<int64_t, Place> residuals;
  llvm::DenseSet<int> sent; // roots that a message leaves from
  const Places *places = nullptr;
  int64_t firstLayer = 0, lastLayer = -1;
};

Place StageBuilder::newRoot(Type type, plan::Space space, DictionaryAttr binding) {
  Root root;
  root.type = cast<RankedTensorType>(type);
  root.space = space;
  root.binding = binding;
  roots.push_back(root);
  return {static_cast<int>(roots.size()) - 1, 0};
}

// The plan.buffer that names `place` as a tensor of `type`; declared at the
// head of the stage.
Value StageBuilder::buffer(Place place, Type type) {
  Root &root = roots[place.root];
  OpBuilder::InsertionGuard guard(b);
  auto declare = [&](Value parent, RankedTensorType tensor, int64_t displacement) -> Value {
    // Behind all other declarations, before the procedures.
    Block &body = stageOp.getBody().front();
    auto procedures = body.getOps<plan::ProcedureOp>();
    if (procedures.empty())
      b.setInsertionPointToEnd(&body);
    else
      b.setInsertionPoint(*procedures.begin());
    return plan::BufferOp::create(
        b, module.getLoc(), plan::BufferType::get(b.getContext(), tensor), parent,
        plan::SpaceAttr::get(b.getContext(), root.space),
        parent ? b.getI64IntegerAttr(displacement) : IntegerAttr(), IntegerAttr(), IntegerAttr(),
        parent ? DictionaryAttr() : root.binding);
  };
  if (!root.buffer)
    root.buffer = declare(Value(), root.type, 0);
  if (place.displacement == 0 && type == root.type)
    return root.buffer;
  Value &view = views[{place.root, place.displacement, type.getAsOpaquePointer()}];
  if (!view)
    view = declare(root.buffer, cast<RankedTensorType>(type), place.displacement);
  return view;
}

// The persistent buffer of a state (of this stage's layers, if stacked).
Place StageBuilder::stateRoot(FlatSymbolRefAttr symbol, DictionaryAttr attrs,
                              RankedTensorType type) {
  auto [it, isNew] = stateRoots.insert({symbol.getAttr(), -1});
  if (!isNew)
    return {it->second, 0};
  auto state = module.lookupSymbol<graph::StateOp>(symbol.getAttr());
  SmallVector<NamedAttribute> binding;
  auto set = [&](StringRef name, Attribute value) { binding.push_back(b.getNamedAttr(name, value)); };
  set("state", symbol);
  set("role", b.getStringAttr(graph::stringifyRole(state.getRole())));
  // Accumulators and moments are stacked like their parameter.
  auto parameter = state.getOfAttr()
                       ? module.lookupSymbol<graph::StateOp>(state.getOfAttr().getAttr())
                       : state;
  bool stacked = parameter && parameter.getStacked();
  auto global = cast<RankedTensorType>(state.getType());
  if (stacked) {
    // Without parallel.layers the stage holds them all.
    auto layers = attrs.getAs<DenseI64ArrayAttr>("parallel.layers");
    int64_t first = layers ? layers[0] : 0, count = layers ? layers[1] : global.getDimSize(0);
    set("layer_first", b.getI64IntegerAttr(first));
    set("layer_count", b.getI64IntegerAttr(count));
    firstLayer = first;
    lastLayer = first + count - 1;
  }
  SmallVector<Attribute> dims;
  auto sharding = state->getAttrOfType<parallel::ShardingAttr>("parallel.sharding");
  for (int64_t d = stacked; d < global.getRank(); ++d)
    dims.push_back(sharding ? sharding.getDims()[d] : b.getArrayAttr({}));
  set("dims", b.getArrayAttr(dims));
  SmallVector<int64_t> valid(global.getShape().drop_front(stacked));
  if (auto shape = state.getValidShape()) {
    valid.clear();
    for (Attribute size : shape->getValue().drop_front(stacked))
      valid.push_back(cast<IntegerAttr>(size).getInt());
  }
  set("valid_shape", b.getDenseI64ArrayAttr(valid));
  bool owner = true; // of its layers; of a tied state the first holder
  auto stages = state->getAttrOfType<ArrayAttr>("parallel.stages");
  if (!stacked && stages && !stages.empty())
    owner = cast<IntegerAttr>(stages[0]).getInt() == stage;
  set("owner", b.getBoolAttr(owner));
  Place place = newRoot(type, plan::Space::persistent, b.getDictionaryAttr(binding));
  stateRoots[symbol.getAttr()] = place.root;
  return place;
}

LogicalResult StageBuilder::bindArguments(func::FuncOp func, Known &known) {
  auto &bound = known.arguments;
  bool update = func == functions.update;
  for (BlockArgument arg : func.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto attrs = func.getArgAttrDict(i);
    if (!attrs)
      attrs = b.getDictionaryAttr({});
    auto type = cast<RankedTensorType>(arg.getType());
    if (auto state = attrs.getAs<FlatSymbolRefAttr>("graph.state")) {
      if (!module.lookupSymbol<graph::StateOp>(state.getAttr()))
        return func.emitError("argument ") << i << " is bound to unknown state " << state;
      bound[arg] = stateRoot(state, attrs, type);
    } else if (auto input = attrs.getAs<StringAttr>("graph.input")) {
      Place &place = inputs[input.str()];
      if (!place)
        place = newRoot(type, update ? plan::Space::step : plan::Space::slot,
                        dict({{update ? "scalar" : "input", input}}));
      bound[arg] = place;
    } else if (auto id = attrs.getAs<IntegerAttr>("parallel.residual")) {
      auto it = residuals.find(id.getInt());
      if (it == residuals.end())
        return func.emitError("argument ")
               << i << " is residual " << id.getInt() << ", which the forward does not produce";
      bound[arg] = it->second;
      // Written anew for each micro-batch, and read by this procedure alone.
      const Root &root = roots[it->second.root];
      if (root.space == plan::Space::slot && !root.binding && !sent.contains(it->second.root))
        known.consumed.insert(it->second.root);
    } else if (attrs.getAs<IntegerAttr>("parallel.border")) {
      known.received.push_back(arg);
    } else {
      return func.emitError("argument ") << i << " has no binding";
    }
  }
  return success();
}

// How the parts of an inference's result lie in the whole; a step's outputs are scalars.
DictionaryAttr StageBuilder::outputBinding(StringAttr name, DictionaryAttr attrs,
                                           RankedTensorType type) {
  if (!parallel::isInference(module))
    return dict({{"output", name}});
  auto sharding = attrs.getAs<parallel::ShardingAttr>(parallel::kSharding);
  SmallVector<Attribute> dims(type.getRank(), b.getArrayAttr({}));
  SmallVector<int64_t> shape(type.getShape());
  for (auto [d, axes] : llvm::enumerate(sharding ? sharding.getDims() : ArrayRef<ArrayAttr>())) {
    dims[d] = axes;
    for (auto axis : axes.getAsRange<StringAttr>())
      shape[d] *= mesh.getSize(axis.getValue());
  }
  Attribute valid = attrs.get(parallel::kValidShape);
  return dict({{"output", name},
               {"dims", b.getArrayAttr(dims)},
               {"valid_shape", valid ? valid : b.getDenseI64ArrayAttr(shape)}});
}

// A parameter that nothing reads is loaded all the same, so that a plan holds all
// of its model. Nothing is stacked that is not read.
void StageBuilder::bindUnused() {
  for (auto state : module.getOps<graph::StateOp>()) {
    auto holders = state->getAttrOfType<ArrayAttr>(parallel::kStages);
    auto symbol = FlatSymbolRefAttr::get(state.getSymNameAttr());
    if (stateRoots.count(symbol.getAttr()) || state.getStacked() || !holders ||
        !llvm::is_contained(holders, b.getI64IntegerAttr(stage)))
      continue;
    auto type = cast<RankedTensorType>(state.getType());
    if (auto sharding = state->getAttrOfType<parallel::ShardingAttr>(parallel::kSharding))
      type = parallel::getLocalType(type, sharding, mesh);
    buffer(stateRoot(symbol, b.getDictionaryAttr({}), type), type);
  }
}

LogicalResult StageBuilder::bindResults(func::FuncOp func, Known &known) {
  Operation *ret = func.getBody().front().getTerminator();
  for (unsigned i = 0; i < ret->getNumOperands(); ++i) {
    auto attrs = func.getResultAttrDict(i);
    if (!attrs)
      attrs = b.getDictionaryAttr({});
    auto type = cast<RankedTensorType>(ret->getOperand(i).getType());
    Place place;
    bool escape = false;
    if (auto state = attrs.getAs<FlatSymbolRefAttr>("graph.state"))
      place = stateRoot(state, attrs, type);
    else if (auto output = attrs.getAs<StringAttr>("graph.output"))
      place = newRoot(type, plan::Space::step, outputBinding(output, attrs, type));
    else if (attrs.get("parallel.residual") || attrs.get("parallel.border"))
      escape = true;
    else
      return func.emitError("result ") << i << " has no binding";
    known.returned.push_back(place);
    known.escapes.push_back(escape);
  }
  return success();
}

// What must be there before the first op: receives and inputs; and slots whose
// last message has left.
void StageBuilder::buildPrologue(func::FuncOp func, plan::ProcedureKind kind) {
  bool forward = kind == plan::ProcedureKind::forward;
  Location loc = func.getLoc();
  Border out = borderOf(func.getBody().front().getTerminator()->getOperands(),
                        [&](unsigned i) { return func.getResultAttrDict(i); });
  if (!out.values.empty())
    plan::WaitOp::create(b, loc, forward ? forwardSent : backwardSent, false, compute,
                         out.originOf(mesh, forward));
  Border in = borderOf(ValueRange(func.getArguments()), [&](unsigned i) { return func.getArgAttrDict(i); });
  if (!in.values.empty()) {
    SmallVector<Value> parts;
    for (Value value : in.values)
      parts.push_back(bufferOf(value));
    plan::RecvOp::create(b, loc, parts, b.getStringAttr("pp"),
                         b.getI64IntegerAttr(forward ? -1 : 1), b.getI64IntegerAttr(forward ? 0 : 1),
                         UnitAttr(), b.getI64IntegerAttr(compute), in.originOf(mesh, forward));
  }
  if (kind == plan::ProcedureKind::update)
    return;
  for (BlockArgument arg : func.getArguments()) {
    auto input = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "graph.input");
    if (!input || !fed.insert(input.str()).second)
      continue;
    auto origin = plan::OriginAttr::get(b.getContext(), "feed", {input}, "", "");
    plan::FeedOp::create(b, loc, input, bufferOf(arg), b.getI64IntegerAttr(compute), origin);
  }
}

// What happens to results: copies that could not be avoided, and messages.
void StageBuilder::buildEpilogue(func::FuncOp func, plan::ProcedureKind kind,
                                 const Bindings &returned) {
  bool forward = kind == plan::ProcedureKind::forward;
  Location loc = func.getLoc();
  Operation *ret = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(ret->getOperands())) {
    if (returned[i] && !(places->lookup(value) == returned[i])) {
      ++copies;
      plan::CopyOp::create(b, loc, bufferOf(value), buffer(returned[i], value.getType()),
                           b.getI64IntegerAttr(compute), getOrigin(ret));
    }
    if (auto id = func.getResultAttrOfType<IntegerAttr>(i, "parallel.residual"))
      residuals[id.getInt()] = places->lookup(value);
  }
  Border out = borderOf(ret->getOperands(), [&](unsigned i) { return func.getResultAttrDict(i); });
  if (out.values.empty())
    return;
  plan::OriginAttr origin = out.originOf(mesh, forward);
  SmallVector<Value> parts;
  for (Value value : out.values) {
    parts.push_back(bufferOf(value));
    sent.insert(places->lookup(value).root);
  }
  int64_t ready = forward ? forwardReady : backwardReady;
  int64_t sent = forward ? forwardSent : backwardSent;
  int64_t stream = forward ? forwardSend : backwardSend;
  plan::RecordOp::create(b, loc, ready, false, compute, origin);
  plan::WaitOp::create(b, loc, ready, false, stream, origin);
  plan::SendOp::create(b, loc, parts, b.getStringAttr("pp"), b.getI64IntegerAttr(forward ? 1 : -1),
                       b.getI64IntegerAttr(forward ? 0 : 1), UnitAttr(),
                       b.getI64IntegerAttr(stream), origin);
  plan::RecordOp::create(b, loc, sent, false, stream, origin);
}

// A launch: the group's body, or the op alone, with what it reads as arguments.
// Constants that are one repeated number go into the body.
LogicalResult StageBuilder::buildLaunch(Operation &op) {
  SmallVector<Value> reads, writes;
  SmallVector<Attribute> scalars;
  SmallVector<Value> tensors, offsets;
  DenseMap<Value, Operation *> inlined;
  for (Value operand : op.getOperands()) {
    if (llvm::is_contained(tensors, operand) || llvm::is_contained(offsets, operand))
      continue;
    Operation *def = operand.getDefiningOp();
    if (auto constant = dyn_cast_or_null<graph::ConstantOp>(def);
        constant && constant.getValue().isSplat() && isElementwise(op)) {
      inlined[operand] = def;
    } else if (auto offset = dyn_cast_or_null<parallel::AxisOffsetOp>(def)) {
      // stride * row-major coordinate over the axes, as one coefficient per mesh axis.
      SmallVector<int64_t> coefs(mesh.getNames().size() + 1, 0);
      int64_t stride = offset.getStride();
      for (Attribute axis : llvm::reverse(offset.getAxes().getValue())) {
        StringRef name = cast<StringAttr>(axis).getValue();
        coefs[mesh.getIndex(name) + 1] = stride;
        stride *= mesh.getSize(name);
      }
      scalars.push_back(b.getDenseI64ArrayAttr(coefs));
      offsets.push_back(operand);
    } else {
      tensors.push_back(operand);
      reads.push_back(bufferOf(operand));
    }
  }
  for (Value result : op.getResults())
    writes.push_back(bufferOf(result));
  auto launch = plan::LaunchOp::create(b, op.getLoc(), reads, writes,
                                       scalars.empty() ? ArrayAttr() : b.getArrayAttr(scalars),
                                       StringAttr(), IntegerAttr(), DenseI64ArrayAttr(),
                                       b.getI64IntegerAttr(compute), getOrigin(&op));
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&launch.getBody());
  IRMapping map;
  for (Value value : llvm::concat<Value>(tensors, offsets))
    map.map(value, body->addArgument(value.getType(), op.getLoc()));
  for (auto &[value, def] : inlined)
    map.map(value, b.clone(*def)->getResult(0));
  auto copy = [&](Operation &part) {
    Operation *made = b.clone(part, map);
    // Annotations served the earlier phases; equal kernels must look equal.
    for (NamedAttribute attr : llvm::to_vector(made->getDiscardableAttrs()))
      made->removeDiscardableAttr(attr.getName());
    return made;
  };
  if (auto group = dyn_cast<plan::GroupOp>(op)) {
    Block &parts = group.getBody().front();
    for (auto [argument, input] : llvm::zip(parts.getArguments(), group.getInputs()))
      map.map(argument, map.lookup(input));
    for (Operation &part : parts.without_terminator())
      copy(part);
    SmallVector<Value> yielded;
    for (Value value : parts.getTerminator()->getOperands())
      yielded.push_back(map.lookup(value));
    plan::YieldOp::create(b, op.getLoc(), yielded);
  } else {
    plan::YieldOp::create(b, op.getLoc(), copy(op)->getResults());
  }
  ++launches;
  return success();
}

void StageBuilder::buildCollective(Operation &op, plan::CollectiveKind kind,
                                   graph::ReduceKind reduce) {
  auto members = op.getAttrOfType<DenseI64ArrayAttr>("members");
  plan::CollectiveOp::create(
      b, op.getLoc(), plan::CollectiveKindAttr::get(b.getContext(), kind),
      graph::ReduceKindAttr::get(b.getContext(), reduce), bufferOf(op.getOperand(0)),
      bufferOf(op.getResult(0)), op.getAttrOfType<ArrayAttr>("axes"), members,
      b.getI64IntegerAttr(compute), getOrigin(&op));
}

LogicalResult StageBuilder::buildOp(Operation &op) {
  int64_t displacement;
  if (op.getNumOperands() && op.getNumResults() && isView(&op, displacement)) {
    Place source = places->lookup(op.getOperand(0)), target = places->lookup(op.getResult(0));
    if (target == Place{source.root, source.displacement + displacement})
      return success();
    ++copies;
    Value from = buffer({source.root, source.displacement + displacement}, op.getResult(0).getType());
    plan::CopyOp::create(b, op.getLoc(), from, bufferOf(op.getResult(0)),
                         b.getI64IntegerAttr(compute), getOrigin(&op));
    return success();
  }
  if (isa<parallel::AxisOffsetOp>(op) || places->isElided(&op))
    return success();
  if (isPutTogether(&op)) {
    auto concat = cast<graph::ConcatOp>(op);
    Place at = places->lookup(concat.getResult());
    for (Value part : concat.getInputs()) {
      if (!(places->lookup(part) == at)) {
        ++copies;
        plan::CopyOp::create(b, op.getLoc(), bufferOf(part), buffer(at, part.getType()),
                             b.getI64IntegerAttr(compute), getOrigin(&op));
      }
      at.displacement += byteSize(part.getType());
    }
    return success();
  }
  if (auto matmul = dyn_cast<graph::MatmulOp>(op)) {
    plan::MatmulOp::create(b, op.getLoc(), matmul.getEquationAttr(), bufferOf(matmul.getLhs()),
                           bufferOf(matmul.getRhs()), bufferOf(matmul.getResult()),
                           places->accumulates(&op) ? b.getUnitAttr() : UnitAttr(), StringAttr(),
                           StringAttr(),
                           b.getI64IntegerAttr(compute), getOrigin(&op));
    return success();
  }
  if (auto reduce = dyn_cast<parallel::AllReduceOp>(op)) {
    buildCollective(op, plan::CollectiveKind::all_reduce, reduce.getKind());
    return success();
  }
  if (isa<parallel::AllGatherOp>(op) || isa<parallel::ReduceScatterOp>(op)) {
    // The wire layout is one part after the other: only the leading dimension is.
    if (op.getAttrOfType<IntegerAttr>("dim").getInt() != 0)
      return op.emitError("moves dimension ")
             << op.getAttrOfType<IntegerAttr>("dim").getInt()
             << "; a collective moves dimension 0 (transpose before and after it)";
    bool gather = isa<parallel::AllGatherOp>(op);
    buildCollective(op, gather ? plan::CollectiveKind::all_gather : plan::CollectiveKind::reduce_scatter,
                    graph::ReduceKind::sum);
    return success();
  }
  if (auto exchange = dyn_cast<parallel::AllToAllOp>(op)) {
    if (exchange.getSplit() != 0 || exchange.getConcat() != 0)
      return op.emitError("exchanges dimension ")
             << exchange.getSplit() << " for " << exchange.getConcat()
             << "; a collective moves dimension 0 (transpose before and after it)";
    buildCollective(op, plan::CollectiveKind::all_to_all, graph::ReduceKind::sum);
    return success();
  }
  if (auto constant = dyn_cast<graph::ConstantOp>(op);
      constant && constant.getValue().isSplat() &&
      llvm::all_of(op.getUsers(), [](Operation *user) { return isElementwise(*user); }))
    return success(); // stands inside its users
  if (isa<graph::GraphOpInterface, plan::GroupOp>(op))
    return buildLaunch(op);
  return op.emitError("has no instruction");
}

LogicalResult StageBuilder::buildProcedure(func::FuncOp func, plan::ProcedureKind kind) {
  Known known;
  if (failed(bindArguments(func, known)) || failed(bindResults(func, known)))
    return failure();
  Bindings returned = known.returned;
  Places planned(func, roots, std::move(known));
  places = &planned;
  b.setInsertionPointToEnd(&stageOp.getBody().front());
  auto procedure = plan::ProcedureOp::create(b, func.getLoc(),
                                             plan::stringifyProcedureKind(kind), kind);
  b.setInsertionPointToStart(b.createBlock(&procedure.getBody()));
  buildPrologue(func, kind);
  for (Operation &op : func.getBody().front().without_terminator())
    if (failed(buildOp(op)))
      return failure();
  buildEpilogue(func, kind, returned);
  places = nullptr;
  return success();
}

// A step begins with empty accumulators.
void StageBuilder::buildBegin() {
  b.setInsertionPointToEnd(&stageOp.getBody().front());
  auto procedure = plan::ProcedureOp::create(b, module.getLoc(), "begin", plan::ProcedureKind::begin);
  b.setInsertionPointToStart(b.createBlock(&procedure.getBody()));
  for (auto &[state, root] : stateRoots)
    if (module.lookupSymbol<graph::StateOp>(state).getRole() == graph::Role::accumulator)
      plan::FillOp::create(b, module.getLoc(), buffer({root, 0}, roots[root].type),
                           b.getI64IntegerAttr(compute),
                           plan::OriginAttr::get(b.getContext(), "zero accumulators", {}, "", ""));
}

LogicalResult StageBuilder::run() {
  b.setInsertionPointToEnd(module.getBody());
  stageOp = plan::StageOp::create(b, module.getLoc(), "stage" + std::to_string(stage), stage,
                                  /*slots=*/1, 0, -1, b.getArrayAttr({}), IntegerAttr(), IntegerAttr());
  b.createBlock(&stageOp.getBody());
  if (failed(buildProcedure(functions.forward, plan::ProcedureKind::forward)))
    return failure();
  if (functions.update) {
    if (failed(buildProcedure(functions.backward, plan::ProcedureKind::backward)) ||
        failed(buildProcedure(functions.update, plan::ProcedureKind::update)))
      return failure();
    buildBegin();
  } else {
    bindUnused();
  }
  // Several repeats, or one of groups of layers: only the module knows all of them.
  if (auto layers = module->getAttrOfType<DenseI64ArrayAttr>(parallel::kStageLayers)) {
    ArrayRef<int64_t> before = layers.asArrayRef().take_front(stage);
    firstLayer = std::accumulate(before.begin(), before.end(), int64_t(0));
    lastLayer = firstLayer + layers[stage] - 1;
  }
  // Layers that nothing folded cannot be divided: the one stage has them all.
  auto model = module->getAttrOfType<DictionaryAttr>("graph.model");
  auto layers = model ? model.getAs<IntegerAttr>("layers") : IntegerAttr();
  if (layers && lastLayer < firstLayer && mesh.getSize("pp") == 1)
    lastLayer = firstLayer + layers.getInt() - 1;
  stageOp.setFirstLayer(firstLayer);
  stageOp.setLastLayer(lastLayer);
  return success();
}

struct BuildProcedures : impl::BuildProceduresBase<BuildProcedures> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!module->getAttrOfType<parallel::MeshAttr>("parallel.mesh")) {
      module.emitError("has no parallel.mesh");
      return signalPassFailure();
    }
    std::map<int64_t, StageFunctions> stages;
    for (auto func : module.getOps<func::FuncOp>()) {
      auto stage = func->getAttrOfType<IntegerAttr>("parallel.stage");
      auto kind = func->getAttrOfType<StringAttr>("parallel.procedure");
      if (!stage || !kind)
        continue;
      StageFunctions &functions = stages[stage.getInt()];
      (kind == "forward" ? functions.forward
       : kind == "backward" ? functions.backward : functions.update) = func;
    }
    for (auto &[stage, functions] : stages) {
      bool infer = parallel::isInference(module);
      if (!functions.forward || (!infer && (!functions.backward || !functions.update))) {
        module.emitError("stage ") << stage
                                   << (infer ? " lacks a forward function"
                                             : " lacks a forward, backward or update function");
        return signalPassFailure();
      }
      StageBuilder builder(module, stage, functions);
      if (failed(builder.run()))
        return signalPassFailure();
      numLaunches += builder.launches;
      numCopies += builder.copies;
      for (func::FuncOp func : {functions.forward, functions.backward, functions.update})
        if (func)
          func.erase();
    }
  }
};

} // namespace
} // namespace llmc
