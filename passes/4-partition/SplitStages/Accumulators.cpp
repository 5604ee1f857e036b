// Splits the gradient of a state that several stages use, a sum with terms from all of them. Each
// stage keeps the sum of its own terms in its own accumulator, so that no gradient crosses a stage
// boundary.
#include "passes/4-partition/SplitStages/SplitStages.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;

static void collectTerms(Value value, Value acc, SmallVectorImpl<AddOp> &adds,
                         SmallVectorImpl<Value> &terms) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add || !value.hasOneUse() || add.getLhs().getType() != add.getType() ||
      add.getRhs().getType() != add.getType()) {
    if (value != acc)
      terms.push_back(value);
    return;
  }
  adds.push_back(add);
  collectTerms(add.getLhs(), acc, adds, terms);
  collectTerms(add.getRhs(), acc, adds, terms);
}

static void mark(AddOp add, int64_t stage, bool backward) {
  Builder builder(add.getContext());
  add->setAttr(kStage, builder.getI64IntegerAttr(stage));
  add->removeAttr(kBackward);
  if (backward)
    add->setAttr(kBackward, builder.getUnitAttr());
}

static Value addTerm(OpBuilder &builder, Value sum, Value term, AddOp like, int64_t stage) {
  auto add = AddOp::create(builder, like.getLoc(), like.getType(), sum, term);
  ShardingAttr sharding = getSharding(like.getResult());
  for (OpOperand &use : add->getOpOperands())
    setRequired(use, sharding);
  setSharding(add.getResult(), sharding);
  bool isFree = term.getDefiningOp()->getNumOperands() == 0;
  mark(add, stage, (isFree ? like.getOperation() : term.getDefiningOp())->hasAttr(kBackward));
  return add.getResult();
}

static BlockArgument findAccumulator(func::FuncOp micro, unsigned result) {
  Attribute state = micro.getResultAttr(result, kState);
  for (BlockArgument arg : micro.getArguments())
    if (state && micro.getArgAttr(arg.getArgNumber(), kState) == state)
      return arg;
  return {};
}

StageSums llmc::splitAccumulators(func::FuncOp micro, int64_t stages) {
  StageSums shares;
  Operation *ret = micro.getBody().front().getTerminator();
  for (OpOperand &use : ret->getOpOperands()) {
    BlockArgument acc = findAccumulator(micro, use.getOperandNumber());
    auto root = use.get().getDefiningOp<AddOp>();
    if (!acc || !root)
      continue;
    SmallVector<AddOp> adds;
    SmallVector<Value> terms;
    collectTerms(use.get(), acc, adds, terms);
    if (llvm::any_of(terms, [](Value term) { return !term.getDefiningOp(); }) ||
        terms.size() != adds.size())
      continue; // not acc + terms
    std::map<int64_t, Value> sums;
    OpBuilder builder(ret);
    for (Value term : terms) {
      // A constant is recomputed on the stage that adds it.
      Operation *producer = term.getDefiningOp();
      int64_t stage = stageOf(producer->getNumOperands() ? producer : root.getOperation(), stages);
      Value &sum = sums[stage];
      sum = addTerm(builder, sum ? sum : Value(acc), term, root, stage);
    }
    auto &list = shares[use.getOperandNumber()];
    list.assign(sums.begin(), sums.end());
    use.set(list.front().second);
    for (AddOp add : adds) // roots first
      add.erase();
  }
  return shares;
}
