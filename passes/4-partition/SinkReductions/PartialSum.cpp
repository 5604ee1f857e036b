#include "passes/4-partition/SinkReductions/SinkReductions.h"

#include "passes/4-partition/Origin.h"
#include "passes/4-partition/Stages.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;
using graph::RepeatOp;

// Returns `sharding`, which is fully reduced because the terms of a PartialSum are, made
// unreduced over `axes`.
static ShardingAttr unreduce(ShardingAttr sharding, ArrayRef<StringAttr> axes) {
  ShardingAttr result = withUnreduced(sharding, axes);
  assert((sharding.getUnreduced().empty() || sharding == result) && "loses an unreduced axis");
  return result;
}

void llmc::addUnreduced(Value value, ArrayRef<StringAttr> axes) {
  setSharding(value, unreduce(getSharding(value), axes));
}
void llmc::addUnreduced(OpOperand &use, ArrayRef<StringAttr> axes) {
  setRequired(use, unreduce(getRequired(use), axes));
}

static bool collect(Value value, bool isRoot, PartialSum &sum) {
  auto add = value.getDefiningOp<AddOp>();
  if (add && (isRoot || value.hasOneUse()) && add.getLhs().getType() == add.getType() &&
      add.getRhs().getType() == add.getType()) {
    sum.adds.push_back(add);
    return collect(add.getLhs(), false, sum) && collect(add.getRhs(), false, sum);
  }
  if (ReshardOp reshard = getPureSum(value); reshard && reshard.getTo().getUnreduced().empty()) {
    sum.terms.push_back(reshard);
    return reshard.getFrom() == sum.terms.front().getFrom();
  }
  if (sum.acc)
    return false; // a second term that is not partial
  sum.acc = value;
  return true;
}

FailureOr<PartialSum> PartialSum::match(Value root) {
  PartialSum sum;
  if (!collect(root, true, sum) || sum.terms.empty() || !sum.acc || sum.adds.empty())
    return failure();
  return sum;
}

void PartialSum::makeUnreduced(ArrayRef<StringAttr> axes) {
  for (AddOp add : adds) {
    for (OpOperand &use : add->getOpOperands())
      addUnreduced(use, axes);
    addUnreduced(add.getResult(), axes);
  }
  for (ReshardOp reshard : terms) {
    reshard.getResult().replaceAllUsesWith(reshard.getOperand());
    reshard.erase();
  }
}

//===-- Sums that a repeat carries ------------------------------------------------===//

static bool isZero(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return dense && dense.isSplat() && isa<FloatType>(dense.getElementType()) &&
         dense.getSplatValue<APFloat>().isZero();
}

// Makes the initial value unreduced: zeros are a partial sum of zeros, and a reduced partial sum is
// taken before its reduction.
static void startUnreduced(OpOperand &init, ArrayRef<StringAttr> axes) {
  if (ReshardOp reshard = getPureSum(init.get())) {
    init.set(reshard.getOperand());
    reshard.erase();
  } else {
    OpBuilder builder(init.getOwner());
    Operation *zeros = builder.clone(*init.get().getDefiningOp());
    addUnreduced(zeros->getResult(0), axes);
    init.set(zeros->getResult(0));
  }
  addUnreduced(init, axes);
}

static bool sinkCarriedReductions(RepeatOp op, unsigned i) {
  OpOperand &yield = op.getBlock().getTerminator()->getOpOperand(i);
  BlockArgument arg = op.getBlock().getArgument(i);
  if (!arg.hasOneUse() || !yield.get().hasOneUse())
    return false;
  FailureOr<PartialSum> sum = PartialSum::match(yield.get());
  OpOperand &init = op->getOpOperand(i);
  ReshardOp start = getPureSum(init.get());
  if (failed(sum) || sum->acc != arg || !(start || isZero(init.get())))
    return false;
  if (start && start.getFrom() != sum->terms.front().getFrom())
    return false;
  ReshardOp like = sum->terms.front();
  Axes axes = getReducedAxes(like);
  Attribute origin = like->getAttr(kOrigin);
  Value result = op->getResult(i);
  ShardingAttr to = getSharding(result);
  startUnreduced(init, axes);
  sum->makeUnreduced(axes);
  addUnreduced(arg, axes);
  addUnreduced(yield, axes);
  addUnreduced(result, axes);
  if (result.use_empty())
    return true;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  auto reshard = ReshardOp::create(builder, op.getLoc(), result.getType(), result,
                                   withUnreduced(to, axes), to);
  if (Attribute backward = op->getAttr(kBackward))
    reshard->setAttr(kBackward, backward);
  // The reduction runs on the stage where the last of the layers runs, with the ops behind them.
  if (SmallVector<int64_t> counts = readCounts(op->getAttr(kLayers)); !counts.empty())
    reshard->setAttr(kStage, builder.getI64IntegerAttr(stageOf(op, counts.size())));
  else if (Attribute stage = op->getAttr(kStage))
    reshard->setAttr(kStage, stage);
  reshard->setAttr(kOrigin, origin);
  if (origin)
    setOriginField(reshard, "moved", "behind the layers: their terms are added up first");
  result.replaceAllUsesExcept(reshard.getResult(), reshard);
  return true;
}

bool llmc::sinkCarriedReductions(RepeatOp op) {
  bool any = false;
  for (unsigned i = 0; i < op.getCarried().size(); ++i)
    any |= ::sinkCarriedReductions(op, i);
  return any;
}
