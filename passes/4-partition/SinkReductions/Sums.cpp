// Rewrites sums of many terms: trees of adds of one type, to which biases may be broadcast.
#include "passes/4-partition/Origin.h"
#include "passes/4-partition/SinkReductions/SinkReductions.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;

bool llmc::isTerm(AddOp add) {
  return add &&
         (add.getLhs().getType() == add.getType() || add.getRhs().getType() == add.getType());
}

bool llmc::isRootOfSum(AddOp add) {
  if (!isTerm(add) || !add.getResult().hasOneUse())
    return isTerm(add);
  auto user = dyn_cast<AddOp>(*add.getResult().user_begin());
  return !user || user.getType() != add.getType() || !sameMarks(user, add);
}

static void collect(AddOp add, AddOp root, SumOfTerms &sum) {
  sum.adds.push_back(add);
  for (OpOperand &use : add->getOpOperands()) {
    auto inner = use.get().getDefiningOp<AddOp>();
    if (isTerm(inner) && inner.getType() == root.getType() && inner.getResult().hasOneUse() &&
        sameMarks(inner, root))
      collect(inner, root, sum);
    else
      sum.terms.push_back(&use);
  }
}

SumOfTerms llmc::collectTerms(AddOp root) {
  SumOfTerms sum;
  collect(root, root, sum);
  return sum;
}

// Returns the sum of `values`, added in order. The first value has the type of `like`; all partial
// results have `sharding`.
static Value addAll(OpBuilder &builder, AddOp like, ArrayRef<Value> values, ShardingAttr sharding) {
  Value sum = values.front();
  for (Value value : values.drop_front()) {
    auto add = AddOp::create(builder, like.getLoc(), like.getType(), sum, value);
    copyMarks(like, add);
    setRequired(add->getOpOperand(0), sharding);
    setRequired(add->getOpOperand(1), getSharding(value));
    setSharding(add.getResult(), sharding);
    sum = add.getResult();
  }
  return sum;
}

// Returns the terms of a sum that are reduced like the first reduced term: over the same axes, and
// cut alike.
static SmallVector<Value> partialTerms(const SumOfTerms &sum, AddOp root) {
  SmallVector<Value> partial;
  for (OpOperand *term : sum.terms) {
    Value leaf = term->get();
    ReshardOp reshard = getSum(leaf);
    if (!reshard || !sameMarks(reshard, root) || leaf.getType() != root.getType())
      continue;
    auto first = partial.empty() ? reshard : cast<ReshardOp>(partial[0].getDefiningOp());
    if (first.getFrom() == reshard.getFrom() && first.getTo() == reshard.getTo())
      partial.push_back(leaf);
  }
  return partial;
}

static void eraseDead(Operation *root) {
  SmallVector<Operation *> dead = {root};
  while (!dead.empty()) {
    Operation *op = dead.pop_back_val();
    if (!op->use_empty() || !isa<AddOp, ReshardOp>(op))
      continue;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        if (!llvm::is_contained(dead, producer))
          dead.push_back(producer);
    op->erase();
  }
}

bool llmc::mergeSum(AddOp root) {
  if (!isRootOfSum(root))
    return false;
  SumOfTerms sum = collectTerms(root);
  SmallVector<Value> partial = partialTerms(sum, root), operands, rest;
  if (partial.size() < 2)
    return false;
  OpBuilder builder(root);
  auto first = cast<ReshardOp>(partial[0].getDefiningOp());
  for (Value leaf : partial)
    operands.push_back(cast<ReshardOp>(leaf.getDefiningOp()).getOperand());
  Value early = addAll(builder, root, operands, first.getFrom());
  auto reshard = ReshardOp::create(builder, first.getLoc(), early.getType(), early,
                                   first.getFrom(), first.getTo());
  copyMarks(first, reshard);
  if (reshard->hasAttr(kOrigin))
    setOriginField(reshard, "moved",
                   "behind the sum of " + Twine(operands.size()) + " partial sums, done as one");
  for (OpOperand *term : sum.terms)
    if (!llvm::is_contained(partial, term->get()))
      rest.push_back(term->get());
  rest.push_back(reshard.getResult());
  llvm::stable_sort(rest, [&](Value a, Value b) {
    return a.getType() == root.getType() && b.getType() != root.getType();
  });
  Value total = addAll(builder, root, rest, getSharding(root.getResult()));
  root.getResult().replaceAllUsesWith(total);
  eraseDead(root);
  return true;
}
