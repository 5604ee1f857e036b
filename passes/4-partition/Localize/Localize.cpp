#include "dialects/graph/GraphAttrs.h"
#include "passes/4-partition/Localize/Collectives.h"
#include "dialects/graph/Build.h"
#include "passes/4-partition/Localize/Experts.h"
#include "passes/4-partition/Localize/Ring.h"
#include "passes/4-partition/Origin.h"
#include "passes/4-partition/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace llmc {
#define GEN_PASS_DEF_LOCALIZE
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;

namespace {
// Writes the local version of a function, block by block.
class Localizer {
public:
  explicit Localizer(MeshAttr mesh) : mesh(mesh), exchange(mesh) {}

  LogicalResult writeFunction(func::FuncOp from, func::FuncOp to);

private:
  FailureOr<RankedTensorType> localType(Value value);
  LogicalResult writeBlock(Block &from, Block &to);
  LogicalResult writeOp(Operation &op, OpBuilder &builder);
  LogicalResult writeRepeat(graph::RepeatOp op, OpBuilder &builder);
  Value offsetFor(Operation *op, OpBuilder &builder);
  SmallVector<Value> mapped(ValueRange values) {
    SmallVector<Value> result;
    for (Value value : values)
      result.push_back(map.lookup(value));
    return result;
  }

  MeshAttr mesh;
  IRMapping map;
  // Caches the offsets of the block being written, by axes and stride.
  std::map<std::pair<const void *, int64_t>, Value> offsets;
  Block *block = nullptr;
  RowExchange exchange; // of the block being written
};
} // namespace

// Removes the shardings and marks of earlier phases that no later pass reads.
static void dropMarks(Operation *op) {
  const StringRef names[] = {kIn, kOut, kArgs, kStage, kBackward, kLayers, graph::kId, graph::kCotangentOf};
  const bool isGraph = isa<graph::GraphDialect>(op->getDialect());
  SmallVector<NamedAttribute> kept;
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (!llvm::is_contained(names, attribute.getName().getValue()) && !(isGraph && attribute.getName() == kOrigin))
      kept.push_back(attribute);
  op->setDiscardableAttrs(kept);
}

// Returns the origin of a reshard with a description of the tensor that moves.
static Attribute describedOrigin(ReshardOp reshard) {
  auto origin = reshard->getAttrOfType<DictionaryAttr>(kOrigin);
  if (!origin)
    return origin;
  NamedAttrList fields(origin);
  Attribute tensor = describeTensor(reshard.getType(), {}, reshard.getFrom(), reshard.getTo());
  fields.set("tensors", ArrayAttr::get(reshard.getContext(), tensor));
  return fields.getDictionary(reshard.getContext());
}

// Returns the axes over which the tokens of a ring are cut; none if `op` is no ring.
static Axes ringAxes(Operation *op) {
  if (!graph::isRing(op))
    return {};
  return getAxes(getRequired(op->getOpOperand(0)))[1];
}

FailureOr<RankedTensorType> Localizer::localType(Value value) {
  ShardingAttr sharding = getSharding(value);
  if (!dividesEvenly(value.getType(), sharding, mesh))
    return emitError(value.getLoc(), "L1: ")
           << value.getType() << " cannot be cut evenly as " << sharding;
  return getLocalType(value.getType(), sharding, mesh);
}

// Returns the global index at which a rank's part of the op's indexed dimension begins; null if
// that dimension is not cut.
Value Localizer::offsetFor(Operation *op, OpBuilder &builder) {
  graph::ShardingRule rule = cast<graph::GraphOpInterface>(op).getShardingRule();
  if (rule.offsetFactor < 0)
    return {};
  Axes axes;
  int64_t size = rule.factors[rule.offsetFactor].size;
  auto find = [&](const graph::TensorFactors &dims, ShardingAttr sharding) {
    for (auto [d, factors] : llvm::enumerate(dims))
      if (factors.size() == 1 && factors[0] == static_cast<unsigned>(rule.offsetFactor))
        axes = getAxes(sharding)[d];
  };
  for (auto [i, dims] : llvm::enumerate(rule.operands))
    find(dims, getRequired(op->getOpOperand(i)));
  for (auto [i, dims] : llvm::enumerate(rule.results))
    find(dims, getSharding(op->getResult(i)));
  if (axes.empty())
    return {};
  ArrayAttr names = builder.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
  int64_t stride = size / getGroupSize(mesh, axes);
  Value &offset = offsets[{names.getAsOpaquePointer(), stride}];
  if (!offset) {
    OpBuilder start = OpBuilder::atBlockBegin(block);
    offset = AxisOffsetOp::create(start, op->getLoc(),
                                  RankedTensorType::get({}, builder.getI64Type()), names, stride);
  }
  return offset;
}

LogicalResult Localizer::writeRepeat(graph::RepeatOp op, OpBuilder &builder) {
  SmallVector<Type> carried, stacked;
  for (Value result : op->getResults()) {
    FailureOr<RankedTensorType> type = localType(result);
    if (failed(type))
      return failure();
    bool isCarried = cast<OpResult>(result).getResultNumber() < op.getCarried().size();
    (isCarried ? carried : stacked).push_back(*type);
  }
  auto local = graph::RepeatOp::create(builder, op.getLoc(), carried, stacked, op.getCount(),
                                       op.getReverse(), mapped(op.getCarried()),
                                       mapped(op.getStacked()), mapped(op.getCaptured()));
  local->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  dropMarks(local);
  map.map(op->getResults(), local->getResults());
  Block *body = builder.createBlock(&local.getBody());
  auto outer = std::move(offsets);
  Block *outerBlock = block;
  RowExchange outerExchange = std::exchange(exchange, RowExchange(mesh));
  offsets.clear();
  LogicalResult result = writeBlock(op.getBlock(), *body);
  offsets = std::move(outer);
  exchange = std::move(outerExchange);
  block = outerBlock;
  builder.setInsertionPointAfter(local);
  return result;
}

LogicalResult Localizer::writeOp(Operation &op, OpBuilder &builder) {
  if (auto repeat = dyn_cast<graph::RepeatOp>(op))
    return writeRepeat(repeat, builder);
  if (auto reshard = dyn_cast<ReshardOp>(op)) {
    FailureOr<RankedTensorType> type = localType(reshard.getResult());
    if (failed(type))
      return failure();
    map.map(reshard.getResult(),
            reshardLocal(builder, op.getLoc(), map.lookup(reshard.getOperand()), reshard.getFrom(),
                        reshard.getTo(), mesh, describedOrigin(reshard)));
    return success();
  }
  if (!isa<graph::GraphOpInterface>(op)) { // terminators and collectives keep their form
    Operation *clone = builder.clone(op, map);
    for (auto [from, to] : llvm::zip(op.getResults(), clone->getResults()))
      to.setType(getLocalType(from.getType(), getSharding(from), mesh));
    dropMarks(clone);
    return success();
  }
  SmallVector<Type> types;
  for (Value result : op.getResults()) {
    FailureOr<RankedTensorType> type = localType(result);
    if (failed(type))
      return failure();
    types.push_back(*type);
  }
  if (Axes ring = ringAxes(&op); !ring.empty()) {
    auto origin = makeOrigin(op.getResult(0), ring, "keys and values go around the ring of the tokens' ranks");
    map.map(op.getResults(), writeRing(builder, &op, mapped(op.getOperands()), ring.front(), mesh, origin));
    return success();
  }
  if (RowExchange::isExchange(&op)) {
    if (failed(exchange.check(&op)))
      return failure();
    map.map(op.getResults(), exchange.write(builder, &op, mapped(op.getOperands()), types));
    return success();
  }
  Operation *local = graph::cloneForTypes(builder, &op, mapped(op.getOperands()), types);
  if (Value offset = offsetFor(&op, builder))
    local->insertOperands(local->getNumOperands(), offset);
  dropMarks(local);
  auto route = dyn_cast<graph::RouteOp>(op);
  if (isa<graph::LimitRoutesOp>(op) || (route && route.getMixture()))
    local->setAttr(kSharding, getSharding(op.getResult(0)));
  map.map(op.getResults(), local->getResults());
  return success();
}

LogicalResult Localizer::writeBlock(Block &from, Block &to) {
  block = &to;
  for (BlockArgument arg : from.getArguments()) {
    FailureOr<RankedTensorType> type = localType(arg);
    if (failed(type))
      return failure();
    map.map(arg, to.addArgument(*type, arg.getLoc()));
  }
  OpBuilder builder = OpBuilder::atBlockEnd(&to);
  for (Operation &op : from)
    if (failed(writeOp(op, builder)))
      return failure();
  return success();
}

LogicalResult Localizer::writeFunction(func::FuncOp from, func::FuncOp to) {
  Block *entry = new Block();
  to.getBody().push_back(entry);
  if (failed(writeBlock(from.getBody().front(), *entry)))
    return failure();
  to.setFunctionType(FunctionType::get(to.getContext(), entry->getArgumentTypes(),
                                       entry->getTerminator()->getOperandTypes()));
  if (ArrayAttr attrs = from.getAllArgAttrs())
    to.setAllArgAttrs(attrs);
  SmallVector<DictionaryAttr> results;
  for (unsigned i = 0; i < from.getNumResults(); ++i) {
    NamedAttrList attributes(from.getResultAttrDict(i));
    attributes.set(kSharding, getResultSharding(from, i));
    results.push_back(attributes.getDictionary(from.getContext()));
  }
  to.setAllResultAttrs(results);
  return success();
}

namespace {
struct Localize : llmc::impl::LocalizeBase<Localize> {
  void runOnOperation() override {
    MeshAttr mesh = getMesh(getOperation());
    if (!mesh) {
      getOperation().emitError("no mesh: the module needs the attribute `parallel.mesh`");
      return signalPassFailure();
    }
    for (auto func : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      OpBuilder builder(func);
      auto local = func::FuncOp::create(builder, func.getLoc(), func.getSymName(),
                                        builder.getFunctionType({}, {}));
      for (NamedAttribute attr : func->getDiscardableAttrs())
        local->setAttr(attr.getName(), attr.getValue());
      if (failed(Localizer(mesh).writeFunction(func, local)))
        return signalPassFailure();
      func.erase();
    }
  }
};
} // namespace
