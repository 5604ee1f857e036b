// Turns `acc + reduce(partial)` of every micro-batch into `acc + partial`, and one reduction of the
// accumulator per step.
#include "passes/4-partition/Origin.h"
#include "passes/4-partition/SinkReductions/SinkReductions.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;

namespace {
// Holds an accumulator's path through @micro, from argument to result.
struct Chain {
  BlockArgument arg;         // of @micro
  OpOperand *intoRepeat = nullptr;
  BlockArgument inner;       // the repeat's body argument, if it passes through one
  OpOperand *yield = nullptr;
  OpResult outOfRepeat;
  OpOperand *result = nullptr; // of func.return
};
} // namespace

Accumulators llmc::collectAccumulators(ModuleOp module) {
  Accumulators names;
  for (auto state : module.getOps<graph::StateOp>())
    if (state.getRole() == graph::Role::accumulator)
      names.insert(state.getSymNameAttr());
  return names;
}

static FlatSymbolRefAttr accumulatorOf(func::FuncOp func, unsigned arg, const Accumulators &accumulators) {
  auto name = func.getArgAttrOfType<FlatSymbolRefAttr>(arg, kState);
  return name && accumulators.contains(name.getAttr()) ? name : FlatSymbolRefAttr();
}

// Follows the operand of the add back to the argument of @micro. Returns false if it is none that
// is bound to an accumulator.
static bool traceBack(Value acc, Chain &chain, const Accumulators &accumulators) {
  auto arg = dyn_cast<BlockArgument>(acc);
  if (!arg || !arg.hasOneUse())
    return false;
  if (auto repeat = dyn_cast<graph::RepeatOp>(arg.getOwner()->getParentOp())) {
    unsigned i = arg.getArgNumber(), carried = repeat.getCarried().size();
    if (i < carried || i >= carried + repeat.getStacked().size())
      return false;
    chain.inner = arg;
    chain.intoRepeat = &repeat->getOpOperand(i);
    arg = dyn_cast<BlockArgument>(chain.intoRepeat->get());
    if (!arg || !arg.hasOneUse())
      return false;
  }
  chain.arg = arg;
  auto func = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
  return func && accumulatorOf(func, arg.getArgNumber(), accumulators);
}

// Follows the add's result to the result of @micro for the same state. Returns false if it is used
// elsewhere.
static bool traceOn(Value sum, Chain &chain) {
  if (!sum.hasOneUse())
    return false;
  OpOperand *use = &*sum.use_begin();
  if (chain.inner) {
    auto yield = dyn_cast<graph::YieldOp>(use->getOwner());
    if (!yield)
      return false;
    chain.yield = use;
    chain.outOfRepeat = chain.intoRepeat->getOwner()->getResult(use->getOperandNumber());
    if (!chain.outOfRepeat.hasOneUse())
      return false;
    use = &*chain.outOfRepeat.use_begin();
  }
  auto ret = dyn_cast<func::ReturnOp>(use->getOwner());
  if (!ret)
    return false;
  auto func = ret->getParentOfType<func::FuncOp>();
  chain.result = use;
  return func.getResultAttr(use->getOperandNumber(), kState) ==
         func.getArgAttr(chain.arg.getArgNumber(), kState);
}

static void makeUnreduced(PartialSum &sum, Chain &chain, ArrayRef<StringAttr> axes) {
  addUnreduced(chain.arg, axes);
  if (chain.inner) {
    addUnreduced(*chain.intoRepeat, axes);
    addUnreduced(chain.inner, axes);
    addUnreduced(*chain.yield, axes);
    addUnreduced(chain.outOfRepeat, axes);
  }
  addUnreduced(*chain.result, axes);
  sum.makeUnreduced(axes);
}

// Inserts a reduction wherever the state enters another function.
static void reduceAtEntry(func::FuncOp func, FlatSymbolRefAttr state, ArrayRef<StringAttr> axes) {
  for (BlockArgument arg : func.getArguments()) {
    if (func.getArgAttr(arg.getArgNumber(), kState) != state)
      continue;
    ShardingAttr to = getSharding(arg), from = withUnreduced(to, axes);
    setSharding(arg, from);
    if (arg.use_empty())
      continue;
    OpBuilder builder = OpBuilder::atBlockBegin(arg.getOwner());
    auto reshard = ReshardOp::create(builder, arg.getLoc(), arg.getType(), arg, from, to);
    reshard->setAttr(kOrigin, makeOrigin(arg, axes));
    setOriginField(reshard, "moved", "behind the micro-batches: their gradients are added up first");
    arg.replaceAllUsesExcept(reshard.getResult(), reshard);
  }
}

bool llmc::endsInAccumulator(Value acc, Value sum, const Accumulators &accumulators) {
  Chain chain;
  return traceBack(acc, chain, accumulators) && traceOn(sum, chain);
}

static bool sinkInto(AddOp root, const Accumulators &accumulators) {
  FailureOr<PartialSum> sum = PartialSum::match(root.getResult());
  Chain chain;
  if (failed(sum) || !traceBack(sum->acc, chain, accumulators) || !traceOn(root.getResult(), chain))
    return false;
  Axes axes = getReducedAxes(sum->terms.front());
  makeUnreduced(*sum, chain, axes);
  auto func = cast<func::FuncOp>(chain.arg.getOwner()->getParentOp());
  FlatSymbolRefAttr state = accumulatorOf(func, chain.arg.getArgNumber(), accumulators);
  for (auto other : func->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (other != func)
      reduceAtEntry(other, state, axes);
  return true;
}

unsigned llmc::sinkAccumulators(ModuleOp module, const Accumulators &accumulators) {
  SmallVector<AddOp> adds;
  module.walk([&](AddOp add) { adds.push_back(add); });
  unsigned count = 0;
  for (AddOp add : adds)
    count += sinkInto(add, accumulators);
  return count;
}
