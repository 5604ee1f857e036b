#include "passes/4-partition/SinkReductions/SinkReductions.h"

#include "passes/4-partition/Origin.h"
#include "passes/4-partition/Passes.h"

namespace llmc {
#define GEN_PASS_DEF_SINKREDUCTIONS
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;
using graph::ReduceKind;

Axes llmc::getReducedAxes(ReshardOp op) {
  Axes axes;
  for (StringAttr axis : op.getFrom().getUnreduced())
    if (!op.getTo().isUnreducedOver(axis.getValue()))
      axes.push_back(axis);
  return axes;
}

ReshardOp llmc::getPureSum(Value value) {
  auto reshard = value.getDefiningOp<ReshardOp>();
  if (!reshard || !value.hasOneUse() || reshard.getFrom().getDims() != reshard.getTo().getDims() ||
      reshard.getFrom().getKind() != ReduceKind::sum || getReducedAxes(reshard).empty())
    return {};
  return reshard;
}

static int64_t numElements(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

// Marks of phase 3 that say where and when an op runs.
static void copyMarks(Operation *from, Operation *to) {
  for (StringRef name : {StringRef(kStage), StringRef(kBackward), StringRef(kOrigin)})
    if (Attribute attr = from->getAttr(name))
      to->setAttr(name, attr);
}
bool llmc::sameMarks(Operation *a, Operation *b) {
  return a->getAttr(kStage) == b->getAttr(kStage) && a->hasAttr(kBackward) == b->hasAttr(kBackward);
}

// An add that does not broadcast.
static AddOp getPlainAdd(Value value) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add || add.getLhs().getType() != add.getType() || add.getRhs().getType() != add.getType())
    return {};
  return add;
}

//===-- Behind one op -------------------------------------------------------===//

// The reshards in the operands `set`, if all of them only sum over the same axes.
static SmallVector<ReshardOp> matchSet(Operation *op, ArrayRef<unsigned> set) {
  SmallVector<ReshardOp> reshards;
  for (unsigned i : set) {
    ReshardOp reshard = i < op->getNumOperands() ? getPureSum(op->getOperand(i)) : ReshardOp();
    if (!reshard || !sameMarks(reshard, op) || !reshard.getTo().getUnreduced().empty() ||
        (!reshards.empty() &&
         reshard.getFrom().getUnreduced() != reshards[0].getFrom().getUnreduced()))
      return {};
    reshards.push_back(reshard);
  }
  return reshards;
}

static bool shrinksOrKeeps(Operation *op, ArrayRef<unsigned> set) {
  int64_t before = 0, after = 0;
  for (unsigned i : set)
    before += numElements(op->getOperand(i));
  for (Value result : op->getResults())
    after += numElements(result);
  return after <= before;
}

// Through ops that are linear in it, `value` ends in an accumulator, and is read
// by nobody else: then its reduction costs nothing until the step's end.
static bool endsInAccumulator(Value value) {
  if (!value.hasOneUse())
    return false;
  OpOperand &use = *value.use_begin();
  auto op = dyn_cast<graph::GraphOpInterface>(use.getOwner());
  if (!op || op->getNumResults() != 1)
    return false;
  if (auto add = getPlainAdd(op->getResult(0)))
    return isAccumulator(op->getOperand(1 - use.getOperandNumber())) ||
           endsInAccumulator(op->getResult(0));
  unsigned index = use.getOperandNumber();
  for (const auto &set : op.getShardingRule().linearIn)
    if (ArrayRef<unsigned>(set) == ArrayRef<unsigned>(index))
      return endsInAccumulator(op->getResult(0));
  return false;
}

// An op that makes partial results of its own must make sums.
static bool makesSums(Operation *op) {
  return llvm::all_of(op->getResults(), [](Value result) {
    ShardingAttr sharding = getSharding(result);
    return sharding.getUnreduced().empty() || sharding.getKind() == ReduceKind::sum;
  });
}

static std::string describe(Operation *op) {
  StringRef kind = op->getName().getStringRef(), name = getNodeName(op->getLoc());
  return (kind + (name.empty() ? "" : " of ") + name + ", which is linear in it").str();
}

// Lets the op work on partial sums and reduces its results instead.
static void moveBehind(Operation *op, ArrayRef<unsigned> set, SmallVector<ReshardOp> reshards) {
  ReshardOp first = reshards.front();
  Axes axes = getReducedAxes(first);
  for (auto [i, reshard] : llvm::zip(set, reshards)) {
    op->setOperand(i, reshard.getOperand());
    setRequired(op->getOpOperand(i), reshard.getFrom());
  }
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults()) {
    ShardingAttr to = getSharding(result);
    Axes all(to.getUnreduced());
    all.append(axes.begin(), axes.end());
    ShardingAttr from = withUnreduced(to, all);
    setSharding(result, from);
    if (result.use_empty())
      continue;
    auto after = ReshardOp::create(builder, first.getLoc(), result.getType(), result, from, to);
    copyMarks(first, after);
    if (after->hasAttr(kOrigin))
      setOriginField(after, "moved", "behind " + describe(op));
    result.replaceAllUsesExcept(after.getResult(), after);
  }
  for (ReshardOp reshard : reshards)
    reshard.erase();
}

// Does the op itself cut a dimension over one of `axes`, or sum over it? Each rank then
// works on another part, and partial sums of the whole do not fit.
static bool cutsOver(Operation *op, const Axes &axes) {
  auto names = [&](ShardingAttr sharding) {
    bool any = llvm::any_of(axes, [&](auto axis) {
      return llvm::is_contained(sharding.getUnreduced(), axis);
    });
    for (const Axes &dim : getAxes(sharding))
      any |= llvm::any_of(axes, [&](auto axis) { return llvm::is_contained(dim, axis); });
    return any;
  };
  return llvm::any_of(op->getResults(), [&](Value result) { return names(getSharding(result)); }) ||
         llvm::any_of(op->getOpOperands(), [&](OpOperand &use) { return names(getRequired(use)); });
}

static bool sinkBehind(Operation *op) {
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!graphOp || !makesSums(op))
    return false;
  bool any = llvm::any_of(op->getOperands(), [](Value v) { return bool(getPureSum(v)); });
  if (!any)
    return false;
  for (const auto &set : graphOp.getShardingRule().linearIn) {
    SmallVector<ReshardOp> reshards = matchSet(op, set);
    bool isFree = op->getNumResults() == 1 && (endsInAccumulator(op->getResult(0)) ||
                                               (reshards.size() == 1 && movesForFree(reshards[0])));
    if (reshards.empty() || (!isFree && !shrinksOrKeeps(op, set)) ||
        cutsOver(op, getReducedAxes(reshards[0])))
      continue;
    moveBehind(op, set, reshards);
    return true;
  }
  return false;
}

// reshard(reshard(x)) is one reshard.
static bool mergeChain(ReshardOp op) {
  ReshardOp inner = getPureSum(op.getOperand());
  if (!inner || !sameMarks(inner, op))
    return false;
  op.getOperandMutable().set(inner.getOperand());
  op.setFromAttr(inner.getFrom());
  inner.erase();
  return true;
}

// Each of several readers gets a reduction of its own, if all of these can go on.
static bool splitUses(ReshardOp op) {
  if (op.use_empty() || op->hasOneUse() || !movesForFree(op))
    return false;
  OpBuilder builder(op);
  for (OpOperand &use : llvm::make_early_inc_range(llvm::drop_begin(op->getUses())))
    use.set(builder.clone(*op)->getResult(0));
  return true;
}

//===-- Sums of many ----------------------------------------------------------===//

// An add of tensors of one type, or of one that a bias is broadcast to.
static bool isTerm(AddOp add) {
  return add && (add.getLhs().getType() == add.getType() || add.getRhs().getType() == add.getType());
}

static void collectTerms(Value value, AddOp root, SmallVectorImpl<Value> &terms) {
  auto add = value.getDefiningOp<AddOp>();
  if (!isTerm(add) || add.getType() != root.getType() ||
      (add != root && (!value.hasOneUse() || !sameMarks(add, root)))) {
    terms.push_back(value);
    return;
  }
  collectTerms(add.getLhs(), root, terms);
  collectTerms(add.getRhs(), root, terms);
}
void llmc::collectTerms(AddOp root, SmallVectorImpl<Value> &terms) {
  ::collectTerms(root.getResult(), root, terms);
}

AddOp llmc::getSumOf(Value term) {
  AddOp sum;
  for (Value value = term; value.hasOneUse(); value = sum.getResult()) {
    auto add = dyn_cast<AddOp>(*value.user_begin());
    if (!add || add.getType() != term.getType() || (sum && !sameMarks(add, sum)))
      break;
    sum = add;
  }
  return sum;
}

// Adds `values` in order. The first has the type of `like` and, as all sums, `sharding`.
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

// Of the terms of a sum, those that are reduced over the same axes as the first such.
static SmallVector<Value> partialTerms(ArrayRef<Value> terms, Operation *root) {
  SmallVector<Value> partial;
  for (Value leaf : terms) {
    ReshardOp reshard = getPureSum(leaf);
    if (!reshard || !sameMarks(reshard, root) || leaf.getType() != root->getResult(0).getType())
      continue;
    if (partial.empty() || cast<ReshardOp>(partial[0].getDefiningOp()).getFrom() == reshard.getFrom())
      partial.push_back(leaf);
  }
  return partial;
}

// a + R(x) + b + R(y) -> a + b + R(x + y); what is broadcast is added last.
static bool mergeSum(AddOp root) {
  if (!isTerm(root))
    return false;
  if (root.getResult().hasOneUse())
    if (auto user = dyn_cast<AddOp>(*root.getResult().user_begin());
        user && user.getType() == root.getType() && sameMarks(user, root))
      return false; // not the root of its tree
  SmallVector<Value> terms;
  collectTerms(root, terms);
  SmallVector<Value> partial = partialTerms(terms, root);
  if (partial.size() < 2)
    return false;
  OpBuilder builder(root);
  auto first = cast<ReshardOp>(partial[0].getDefiningOp());
  SmallVector<Value> operands;
  for (Value leaf : partial)
    operands.push_back(cast<ReshardOp>(leaf.getDefiningOp()).getOperand());
  Value sum = addAll(builder, root, operands, first.getFrom());
  auto reshard = ReshardOp::create(builder, first.getLoc(), sum.getType(), sum, first.getFrom(),
                                   first.getTo());
  copyMarks(first, reshard);
  if (reshard->hasAttr(kOrigin))
    setOriginField(reshard, "moved",
                   "behind the sum of " + Twine(operands.size()) + " partial sums, done as one");
  SmallVector<Value> rest;
  for (Value leaf : terms)
    if (!llvm::is_contained(partial, leaf))
      rest.push_back(leaf);
  rest.push_back(reshard.getResult());
  llvm::stable_sort(rest, [&](Value a, Value b) {
    return a.getType() == root.getType() && b.getType() != root.getType();
  });
  Value total = addAll(builder, root, rest, getSharding(root.getResult()));
  root.getResult().replaceAllUsesWith(total);
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
  return true;
}

namespace {
struct SinkReductions : llmc::impl::SinkReductionsBase<SinkReductions> {
  void runOnOperation() override {
    bool changed = true;
    while (changed) {
      changed = false;
      SmallVector<Operation *> ops;
      getOperation().walk([&](Operation *op) { ops.push_back(op); });
      for (Operation *op : ops) {
        if (auto reshard = dyn_cast<ReshardOp>(op))
          changed |= mergeChain(reshard) || splitUses(reshard);
        else if (auto repeat = dyn_cast<graph::RepeatOp>(op); repeat && sinkCarried(repeat))
          changed = true, ++numSunk;
        else if (sinkBehind(op))
          changed = true, ++numSunk;
        else if (auto add = dyn_cast<AddOp>(op); add && mergeSum(add))
          changed = true, ++numMerged;
        if (changed)
          break; // ops may be gone
      }
    }
    numAccumulated += sinkAccumulators(getOperation());
  }
};
} // namespace
