// Builds one instruction for each op of a stage's function.
#include "passes/5-schedule/BuildProcedures/StageBuilder.h"

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/ValueVersions.h"
#include "passes/5-schedule/Slices.h"

#include "mlir/IR/IRMapping.h"

namespace llmc {

using namespace mlir;

static bool isElementwise(Operation &op) {
  auto compute = dyn_cast<graph::GraphOpInterface>(op);
  return compute && compute.getEmitClass() == graph::EmitClass::Elementwise;
}

// Records, per buffer operand, which of the values that share its bytes the instruction refers to.
void StageBuilder::setLives(Operation *instruction, ArrayRef<Value> values) {
  SmallVector<int64_t> lives;
  for (Value value : values)
    lives.push_back(places->generationOf(value));
  if (llvm::any_of(lives, [](int64_t life) { return life > 0; }))
    instruction->setAttr(plan::kValueVersions, b.getDenseI64ArrayAttr(lives));
}

// Returns stride * row-major coordinate over the axes, as a base and one coefficient per mesh axis.
SmallVector<int64_t> StageBuilder::coefficientsOf(parallel::AxisOffsetOp offset) const {
  SmallVector<int64_t> coefs(mesh.getNames().size() + 1, 0);
  int64_t stride = offset.getStride();
  for (Attribute axis : llvm::reverse(offset.getAxes().getValue())) {
    StringRef name = cast<StringAttr>(axis).getValue();
    coefs[mesh.getIndex(name) + 1] = stride;
    stride *= mesh.getSize(name);
  }
  return coefs;
}

void StageBuilder::buildGroupedMatmul(Operation &op) {
  Value x = op.getOperand(0), y = op.getOperand(1), routes = op.getOperand(2), out = op.getResult(0);
  auto offset = op.getNumOperands() > 3 ? op.getOperand(3).getDefiningOp<parallel::AxisOffsetOp>()
                                        : parallel::AxisOffsetOp();
  auto product = plan::GroupedMatmulOp::create(
      b, op.getLoc(), bufferOf(x), bufferOf(y), bufferOf(routes), bufferOf(out),
      op.getAttrOfType<UnitAttr>("transposed"), places->accumulates(&op) ? b.getUnitAttr() : UnitAttr(),
      offset ? b.getDenseI64ArrayAttr(coefficientsOf(offset)) : DenseI64ArrayAttr(), StringAttr(), StringAttr(),
      b.getI64IntegerAttr(kCompute), getOrigin(&op));
  setLives(product, {x, y, routes, out});
}

// Builds a launch: its body is that of the group, or the op alone, with the operands as arguments.
// Splat constants are cloned into the body.
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
      scalars.push_back(b.getDenseI64ArrayAttr(coefficientsOf(offset)));
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
                                       getRoutes(&op, mesh), StringAttr(), IntegerAttr(), DenseI64ArrayAttr(),
                                       b.getI64IntegerAttr(kCompute), getOrigin(&op));
  SmallVector<Value> values(tensors);
  llvm::append_range(values, op.getResults());
  setLives(launch, values);
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&launch.getBody());
  IRMapping map;
  for (Value value : llvm::concat<Value>(tensors, offsets))
    map.map(value, body->addArgument(value.getType(), op.getLoc()));
  for (auto &[value, def] : inlined)
    map.map(value, b.clone(*def)->getResult(0));
  auto copy = [&](Operation &part) {
    Operation *made = b.clone(part, map);
    // Annotations only served the earlier phases, and equal kernels must be equal IR.
    for (NamedAttribute attr : llvm::to_vector(made->getDiscardableAttrs()))
      if (attr.getName() != parallel::kVisible) // what a launch computes, which its plan says
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
  IntegerAttr slices;
  if (isa<parallel::AllGatherOp, parallel::ReduceScatterOp>(op) && slicesOf(&op) > 1)
    slices = b.getI64IntegerAttr(slicesOf(&op));
  SmallVector<Value> counts, values{op.getOperand(0), op.getResult(0)};
  for (Value count : op.getOperands().drop_front()) {
    counts.push_back(bufferOf(count));
    values.push_back(count);
  }
  auto collective = plan::CollectiveOp::create(
      b, op.getLoc(), plan::CollectiveKindAttr::get(b.getContext(), kind),
      graph::ReduceKindAttr::get(b.getContext(), reduce), bufferOf(op.getOperand(0)),
      bufferOf(op.getResult(0)), counts, op.getAttrOfType<ArrayAttr>("axes"), members, slices,
      b.getI64IntegerAttr(kCompute), getOrigin(&op));
  setLives(collective, values);
}

// Returns the shifts that travel in one message with `op`: of those that stand side by side the ones
// that go the same way, none of which sends what another receives.
static SmallVector<parallel::ShiftOp> findMessage(parallel::ShiftOp op) {
  Operation *at = op;
  while (isa_and_nonnull<parallel::ShiftOp>(at->getPrevNode()))
    at = at->getPrevNode();
  SmallVector<parallel::ShiftOp> message;
  for (; auto shift = dyn_cast_or_null<parallel::ShiftOp>(at); at = at->getNextNode()) {
    auto fits = [&](parallel::ShiftOp other) {
      return other.getAxes() == shift.getAxes() && other.getDistance() == shift.getDistance() &&
             shift.getOperand() != other.getResult();
    };
    if (!llvm::all_of(message, fits)) {
      if (llvm::is_contained(message, op))
        break;
      message.clear();
    }
    message.push_back(shift);
  }
  return message;
}

// Builds one message: a send to the rank ahead and, in one group with it, a receive from the rank behind.
void StageBuilder::buildMessage(ArrayRef<parallel::ShiftOp> shifts) {
  SmallVector<Value> sent, received, sentBuffers, receivedBuffers;
  parallel::ShiftOp first = shifts.front();
  for (parallel::ShiftOp shift : shifts) {
    sent.push_back(shift.getOperand());
    received.push_back(shift.getResult());
    sentBuffers.push_back(bufferOf(shift.getOperand()));
    receivedBuffers.push_back(bufferOf(shift.getResult()));
  }
  auto axis = cast<StringAttr>(first.getAxes()[0]);
  auto number = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  plan::OriginAttr origin = getOrigin(first);
  int64_t distance = first.getDistance();
  auto send = plan::SendOp::create(b, first.getLoc(), sentBuffers, axis, number(distance), number(ringChannel()),
                                   b.getUnitAttr(), UnitAttr(), IntegerAttr(), number(kCompute), origin);
  setLives(send, sent);
  auto recv = plan::RecvOp::create(b, first.getLoc(), receivedBuffers, axis, number(-distance),
                                   number(ringChannel()), b.getUnitAttr(), b.getUnitAttr(), IntegerAttr(),
                                   number(kCompute), origin);
  setLives(recv, received);
}

LogicalResult StageBuilder::buildOp(Operation &op) {
  int64_t displacement;
  if (op.getNumOperands() && op.getNumResults() && isView(&op, displacement)) {
    BufferSlice source = places->lookup(op.getOperand(0)), target = places->lookup(op.getResult(0));
    if (target == BufferSlice{source.root, source.displacement + displacement})
      return success();
    ++copies;
    Value from = buffer({source.root, source.displacement + displacement}, op.getResult(0).getType());
    auto copy = plan::CopyOp::create(b, op.getLoc(), from, bufferOf(op.getResult(0)),
                                     b.getI64IntegerAttr(kCompute), getOrigin(&op));
    setLives(copy, {op.getOperand(0), op.getResult(0)});
    return success();
  }
  if (isa<parallel::AxisOffsetOp>(op) || places->isElided(&op))
    return success();
  if (isConcatInPlace(&op)) {
    auto concat = cast<graph::ConcatOp>(op);
    BufferSlice at = places->lookup(concat.getResult());
    for (Value part : concat.getInputs()) {
      if (!(places->lookup(part) == at)) {
        ++copies;
        auto copy = plan::CopyOp::create(b, op.getLoc(), bufferOf(part), buffer(at, part.getType()),
                                         b.getI64IntegerAttr(kCompute), getOrigin(&op));
        setLives(copy, {part, concat.getResult()});
      }
      at.displacement += byteSize(part.getType());
    }
    return success();
  }
  if (auto matmul = dyn_cast<graph::MatmulOp>(op)) {
    auto product = plan::MatmulOp::create(
        b, op.getLoc(), matmul.getEquationAttr(), bufferOf(matmul.getLhs()),
        bufferOf(matmul.getRhs()), bufferOf(matmul.getResult()),
        places->accumulates(&op) ? b.getUnitAttr() : UnitAttr(), StringAttr(), StringAttr(),
        b.getI64IntegerAttr(kCompute), getOrigin(&op));
    setLives(product, {matmul.getLhs(), matmul.getRhs(), matmul.getResult()});
    return success();
  }
  if (isa<graph::GroupedMatmulOp, graph::GroupedOuterOp>(op)) {
    buildGroupedMatmul(op);
    return success();
  }
  if (isa<parallel::ExchangeRowsOp>(op)) {
    buildCollective(op, plan::CollectiveKind::exchange_rows, graph::ReduceKind::sum);
    return success();
  }
  if (auto reduce = dyn_cast<parallel::AllReduceOp>(op)) {
    buildCollective(op, plan::CollectiveKind::all_reduce, reduce.getKind());
    return success();
  }
  if (isa<parallel::AllGatherOp>(op) || isa<parallel::ReduceScatterOp>(op)) {
    if (slicesOf(&op) > kMostSlices)
      return op.emitError("moves ") << slicesOf(&op) << " slices before dimension "
                                    << op.getAttrOfType<IntegerAttr>("dim").getInt() << "; a collective moves at most "
                                    << kMostSlices << " (transpose before and after it)";
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
  if (auto shift = dyn_cast<parallel::ShiftOp>(op)) {
    if (SmallVector<parallel::ShiftOp> message = findMessage(shift); message.front() == shift)
      buildMessage(message);
    return success();
  }
  if (auto constant = dyn_cast<graph::ConstantOp>(op);
      constant && constant.getValue().isSplat() &&
      llvm::all_of(op.getUsers(), [](Operation *user) { return isElementwise(*user); }))
    return success(); // it is cloned into its users
  if (isa<graph::GraphOpInterface, plan::GroupOp>(op))
    return buildLaunch(op);
  return op.emitError("has no instruction");
}

} // namespace llmc
