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

// Returns whether a value is zero on each stage that computes it anew.
static bool isZero(Value value) {
  if (auto reshard = value.getDefiningOp<ReshardOp>())
    return isZero(reshard->getOperand(0));
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  return splat && isa<FloatType>(splat.getElementType()) && splat.getSplatValue<llvm::APFloat>().isPosZero();
}

// Returns the numbers of layers of each stage if a term is what layers have added up from zero; else none. The layers
// of a stage then begin at zero too, and add to that stage's accumulator: a stage whose terms other stages added would
// have an accumulator without any.
static SmallVector<int64_t> layersThatAdd(Value term, int64_t stages) {
  auto repeat = term.getDefiningOp<graph::RepeatOp>();
  unsigned i = repeat ? cast<OpResult>(term).getResultNumber() : 0;
  if (stages == 1 || !repeat || i >= repeat.getCarried().size() || !term.hasOneUse() ||
      !isZero(repeat.getCarried()[i]))
    return {};
  BlockArgument sum = repeat.getBlock().getArgument(i);
  SmallVector<AddOp> adds;
  SmallVector<Value> terms;
  collectTerms(repeat.getBlock().getTerminator()->getOperand(i), sum, adds, terms);
  SmallVector<int64_t> counts = readCounts(repeat->getAttr(kLayers));
  bool divides = static_cast<int64_t>(counts.size()) == stages;
  return divides && sum.hasOneUse() && terms.size() == adds.size() && !adds.empty() ? counts : SmallVector<int64_t>();
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

// Copies a reduction or gathering for a stage.
static Value copyOn(OpBuilder &builder, ReshardOp reshard, int64_t stage) {
  Operation *copy = builder.clone(*reshard);
  copy->setAttr(kStage, builder.getI64IntegerAttr(stage));
  return copy->getResult(0);
}

static BlockArgument findAccumulator(func::FuncOp micro, unsigned result) {
  Attribute state = micro.getResultAttr(result, kState);
  for (BlockArgument arg : micro.getArguments())
    if (state && micro.getArgAttr(arg.getArgNumber(), kState) == state)
      return arg;
  return {};
}

StageSums llmc::splitAccumulators(func::FuncOp micro, int64_t stages, llvm::DenseSet<Value> &apart) {
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
    SmallVector<ReshardOp> replaced;
    OpBuilder builder(ret);
    auto addOn = [&](int64_t stage, Value term) {
      Value &sum = sums[stage];
      sum = addTerm(builder, sum ? sum : Value(acc), term, root, stage);
    };
    for (Value term : terms) {
      // A reduction or gathering of the sum is linear: each stage does it with its own.
      auto reshard = term.hasOneUse() ? term.getDefiningOp<ReshardOp>() : ReshardOp();
      Value sum = reshard ? reshard->getOperand(0) : term;
      SmallVector<int64_t> layers = layersThatAdd(sum, stages);
      for (auto [stage, count] : llvm::enumerate(layers))
        if (count > 0)
          addOn(stage, reshard ? copyOn(builder, reshard, stage) : term);
      if (!layers.empty()) {
        apart.insert(sum);
        if (reshard)
          replaced.push_back(reshard);
        continue;
      }
      // A constant is recomputed on the stage that adds it.
      Operation *producer = term.getDefiningOp();
      addOn(stageOf(producer->getNumOperands() ? producer : root.getOperation(), stages), term);
    }
    auto &list = shares[use.getOperandNumber()];
    list.assign(sums.begin(), sums.end());
    use.set(list.front().second);
    for (AddOp add : adds) // roots first
      add.erase();
    for (ReshardOp reshard : replaced)
      reshard.erase();
  }
  return shares;
}
