#include "passes/4-partition/SinkReductions/SinkReductions.h"

#include "passes/4-partition/Origin.h"
#include "passes/4-partition/Passes.h"
#include "passes/4-partition/SinkReductions/Frontier.h"

namespace llmc {
#define GEN_PASS_DEF_SINKREDUCTIONS
#include "passes/4-partition/Passes.h.inc"
} // namespace llmc

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;
using graph::ReduceKind;

//===-- Questions -----------------------------------------------------------===//

Axes llmc::getReducedAxes(ReshardOp op) {
  Axes axes;
  for (StringAttr axis : op.getFrom().getUnreduced())
    if (!op.getTo().isUnreducedOver(axis.getValue()))
      axes.push_back(axis);
  return axes;
}

ReshardOp llmc::getSum(Value value) {
  auto reshard = value.getDefiningOp<ReshardOp>();
  if (!reshard || !value.hasOneUse() || reshard.getFrom().getKind() != ReduceKind::sum ||
      getReducedAxes(reshard).empty())
    return {};
  return reshard;
}

ReshardOp llmc::getPureSum(Value value) {
  ReshardOp reshard = getSum(value);
  return reshard && reshard.getFrom().getDims() == reshard.getTo().getDims() ? reshard : ReshardOp();
}

void llmc::copyMarks(Operation *from, Operation *to) {
  for (StringRef name : {StringRef(kStage), StringRef(kBackward), StringRef(kOrigin)})
    if (Attribute attr = from->getAttr(name))
      to->setAttr(name, attr);
}
bool llmc::sameMarks(Operation *a, Operation *b) {
  return a->getAttr(kStage) == b->getAttr(kStage) && a->hasAttr(kBackward) == b->hasAttr(kBackward);
}

bool llmc::makesSums(Operation *op) {
  return llvm::all_of(op->getResults(), [](Value result) {
    ShardingAttr sharding = getSharding(result);
    return sharding.getUnreduced().empty() || sharding.getKind() == ReduceKind::sum;
  });
}

bool llmc::usesAxis(Operation *op, StringAttr axis) {
  auto names = [&](ShardingAttr sharding) {
    return llvm::is_contained(sharding.getUnreduced(), axis) ||
           llvm::any_of(getAxes(sharding),
                        [&](const Axes &dim) { return llvm::is_contained(dim, axis); });
  };
  return llvm::any_of(op->getResults(), [&](Value result) { return names(getSharding(result)); }) ||
         llvm::any_of(op->getOpOperands(), [&](OpOperand &use) { return names(getRequired(use)); });
}

//===-- Moving to the frontier ------------------------------------------------===//

namespace {
// Makes the ops before a frontier work on partial sums, and reduces at the frontier.
class Mover {
public:
  explicit Mover(StringAttr axis) : axis(axis) {}

  void move(const Frontier &frontier) {
    for (auto &[op, operands] : frontier.ops)
      if (auto reshard = dyn_cast<ReshardOp>(op))
        moveBehind(reshard);
      else
        moveBehind(op, operands);
    for (OpOperand *use : frontier.terms)
      if (!use->get().hasOneUse())
        use->set(OpBuilder(use->getOwner()).clone(*use->get().getDefiningOp())->getResult(0));
    for (ReshardOp reshard : llvm::reverse(reshards))
      if (reshard.use_empty())
        reshard.erase();
  }

private:
  ShardingAttr withAxis(ShardingAttr sharding) {
    Axes all(sharding.getUnreduced());
    all.push_back(axis);
    return withUnreduced(sharding, all);
  }

  void moveBehind(ReshardOp op) {
    reshards.push_back(op);
    ShardingAttr to = op.getTo();
    if (op.getFrom() == withAxis(to)) { // it reduces over this axis alone
      partial[op.getResult()] = op.getOperand();
      return;
    }
    if (!op.getFrom().isUnreducedOver(axis.getValue())) {
      op.getOperandMutable().set(partial.lookup(op.getOperand()));
      op.setFromAttr(withAxis(op.getFrom()));
    }
    op.setToAttr(withAxis(to));
    reduce(op.getResult(), to, op);
  }

  void moveBehind(Operation *op, ArrayRef<unsigned> operands) {
    auto like = op->getOperand(operands.front()).getDefiningOp<ReshardOp>();
    for (unsigned i : operands) {
      op->setOperand(i, partial.lookup(op->getOperand(i)));
      setRequired(op->getOpOperand(i), withAxis(getRequired(op->getOpOperand(i))));
    }
    StringRef kind = op->getName().getStringRef(), name = getNodeName(op->getLoc());
    std::string text = ("behind " + kind + (name.empty() ? "" : " of ") + name).str();
    for (Value result : op->getResults()) {
      ShardingAttr to = getSharding(result);
      setSharding(result, withAxis(to));
      ReshardOp after = reduce(result, to, like);
      if (after->hasAttr(kOrigin))
        setOriginField(after, "moved", text + ", which is linear in it");
    }
  }

  // Inserts a reduction of `value` for all its users; moving a user behind it takes `value` itself.
  ReshardOp reduce(Value value, ShardingAttr to, ReshardOp like) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto after =
        ReshardOp::create(builder, like.getLoc(), value.getType(), value, withAxis(to), to);
    copyMarks(like, after);
    value.replaceAllUsesExcept(after.getResult(), after);
    partial[after.getResult()] = value;
    reshards.push_back(after);
    return after;
  }

  StringAttr axis;
  llvm::DenseMap<Value, Value> partial; // of a reduced value
  SmallVector<ReshardOp> reshards;
};
} // namespace

// Merges reshard(reshard(x)) into one reshard.
static void mergeChain(ReshardOp op) {
  ReshardOp inner = getPureSum(op.getOperand());
  if (!inner || !sameMarks(inner, op))
    return;
  op.getOperandMutable().set(inner.getOperand());
  op.setFromAttr(inner.getFrom());
  inner.erase();
}

namespace {
struct SinkReductions : llmc::impl::SinkReductionsBase<SinkReductions> {
  void runOnOperation() override {
    axes.clear();
    accumulators = collectAccumulators(getOperation());
    getOperation().walk([&](ReshardOp op) {
      if (op.getFrom().getKind() == ReduceKind::sum)
        for (StringAttr axis : getReducedAxes(op))
          if (!llvm::is_contained(axes, axis))
            axes.push_back(axis);
    });
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal())
        sink(func.getBody().front());
    numAccumulated += sinkAccumulators(getOperation(), accumulators);
  }

  // Sinks reductions in the block. Repeats come first: their sums are reduced behind the layers.
  void sink(Block &block) {
    for (auto repeat : llvm::to_vector(block.getOps<graph::RepeatOp>())) {
      sink(repeat.getBlock());
      numSunk += sinkCarriedReductions(repeat);
    }
    for (StringAttr axis : axes) {
      Frontier frontier = findFrontier(block, axis, accumulators);
      numSunk += frontier.ops.size();
      Mover(axis).move(frontier);
    }
    for (auto reshard : llvm::make_early_inc_range(block.getOps<ReshardOp>()))
      mergeChain(reshard);
    SmallVector<AddOp> roots;
    for (auto add : block.getOps<AddOp>())
      if (isRootOfSum(add))
        roots.push_back(add);
    for (AddOp root : roots)
      numMerged += mergeSum(root);
  }

  Axes axes;
  Accumulators accumulators;
};
} // namespace
