// Finds the frontier as a minimum cut through the linear ops behind partial sums. Ops on the
// source's side work on partial sums, those on the target's side on reduced values. Edges and their
// costs:
//
// source --size--> r               a reshard that reduces and may move
// op --size--> reduced(v)          its result v is reduced once, for all users that need it reduced
// reduced(v) --never--> user       a user on the target's side needs v reduced
// user --never--> op               a user is partial only if the op that it reads is
// reduced(t) --never--> terms(s)   partial terms of a sum are added first and reduced as one,
// terms(s) --size--> s, target     unless all terms are partial and the sum itself is
//
// An accumulator takes partial sums at almost no cost: it is reduced once per step.
#include "passes/4-partition/SinkReductions/Frontier.h"

#include "lib/support/MinCut.h"
#include "llvm/ADT/MapVector.h"
#include "passes/4-partition/SinkReductions/SinkReductions.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::AddOp;
using graph::ReduceKind;
using support::MinCut;

namespace {
// Weighs elements first, then reductions, then accumulators and values kept in both forms.
constexpr int64_t kByte = 1 << 14, kReduction = 1 << 8, kLittle = 1;

using Operands = SmallVector<unsigned, 2>;

class Finder {
public:
  Finder(Block &block, StringAttr axis, const Accumulators &accumulators)
      : block(block), axis(axis), accumulators(accumulators) {}

  Frontier find() {
    roundBytes();
    for (Operation &op : block)
      addOp(&op);
    for (auto &[op, part] : parts)
      if (!part.isAccumulator)
        for (Value result : op->getResults())
          addUses(result, part.node);
    return parts.empty() ? Frontier() : read(cut.solve());
  }

private:
  // Represents an op, or the root of a sum of many terms, that may work on partial sums.
  struct Part {
    unsigned node;
    Operands operands; // the partial ones in that case
    bool isAccumulator = false;
  };
  struct Sum {
    AddOp root;
    unsigned terms; // graph node of the partial terms together
  };

  void addOp(Operation *op);
  void addReshard(ReshardOp op);
  void addSum(AddOp root);
  void addUses(Value value, unsigned node);
  Frontier read(const std::vector<bool> &side);

  unsigned addPart(Operation *op, ArrayRef<unsigned> operands, bool isAccumulator = false) {
    unsigned node = cut.addNode();
    parts[op] = {node, Operands(operands), isAccumulator};
    return node;
  }
  // Returns whether `value` may be partial where `user` reads it.
  bool isPartial(Value value, Operation *user) {
    Operation *op = value.getDefiningOp();
    return op && parts.count(op) && !parts[op].isAccumulator && sameMarks(op, user);
  }
  // Returns whether the op may take partial sums in exactly the operands of `set`, a linear set of
  // its rule. It may not cut a dimension or make partial results over the same axis: then each rank
  // computes another part.
  bool takes(Operation *op, ArrayRef<unsigned> set) {
    for (OpOperand &use : op->getOpOperands()) {
      bool inSet = llvm::is_contained(set, use.getOperandNumber());
      if (inSet ? !isPartial(use.get(), op) : !getRequired(use).getUnreduced().empty())
        return false;
    }
    return !set.empty() && makesSums(op) && !usesAxis(op, axis);
  }
  static int64_t bytesOf(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getNumElements() * type.getElementTypeBitWidth() / 8;
  }
  int64_t costOf(Value value) const { return (bytesOf(value) >> rounded) * kByte + kReduction; }
  // Rounds bytes of all ranks so that all costs together are less than what forbids a cut: each value has a few edges.
  void roundBytes() {
    double all = 0;
    for (Operation &op : block)
      for (Value result : op.getResults())
        if (isa<RankedTensorType>(result.getType()))
          all += 4 * double(bytesOf(result));
    while (all * double(kByte) >= double(MinCut::kUncuttable) / 2)
      all /= 2, ++rounded;
  }

  Block &block;
  StringAttr axis;
  const Accumulators &accumulators;
  int rounded = 0; // bits of bytes that costs leave out
  MinCut cut;
  llvm::MapVector<Operation *, Part> parts;
  llvm::DenseMap<Operation *, Operation *> rootOf; // of the adds of a sum
  llvm::MapVector<OpOperand *, Sum> sumOf;         // of its partial terms
  llvm::DenseMap<Value, unsigned> reduced;         // node of a part's result
};
} // namespace

void Finder::addOp(Operation *op) {
  if (auto reshard = dyn_cast<ReshardOp>(op))
    return addReshard(reshard);
  if (auto add = dyn_cast<AddOp>(op); isTerm(add)) {
    if (isRootOfSum(add))
      addSum(add);
    return;
  }
  auto compute = dyn_cast<graph::GraphOpInterface>(op);
  if (!compute || llvm::none_of(op->getOperands(), [&](Value v) { return isPartial(v, op); }))
    return;
  graph::ShardingRule rule = compute.getShardingRule();
  for (const auto &set : rule.linearIn)
    if (takes(op, set)) {
      addPart(op, set);
      return;
    }
}

void Finder::addReshard(ReshardOp op) {
  ShardingAttr from = op.getFrom(), to = op.getTo();
  bool sums = from.getDims() == to.getDims() && from.getKind() == ReduceKind::sum;
  if (!sums || to.isUnreducedOver(axis.getValue()))
    return;
  if (from.isUnreducedOver(axis.getValue()))
    cut.addEdge(MinCut::kSource, addPart(op, {}), costOf(op.getResult()));
  else if (isPartial(op.getOperand(), op) && !usesAxis(op, axis))
    addPart(op, {0});
}

void Finder::addSum(AddOp root) {
  SumOfTerms sum = collectTerms(root);
  bool isAccumulator = false, all = true;
  SmallVector<OpOperand *> partial;
  for (OpOperand *term : sum.terms)
    if (!isAccumulator && endsInAccumulator(term->get(), root.getResult(), accumulators))
      isAccumulator = true;
    else if (term->get().getType() == root.getType() && isPartial(term->get(), root))
      partial.push_back(term);
    else
      all = false;
  bool mayTake = llvm::none_of(sum.adds, [&](AddOp add) { return usesAxis(add, axis); });
  if (partial.empty() || !mayTake)
    return;
  unsigned terms = cut.addNode();
  for (OpOperand *term : partial)
    sumOf[term] = {root, terms};
  if (!all)
    return cut.addEdge(terms, MinCut::kTarget, costOf(root.getResult()));
  unsigned node = addPart(root, {0, 1}, isAccumulator);
  cut.addEdge(terms, node, costOf(root.getResult()));
  if (isAccumulator)
    return cut.addEdge(node, MinCut::kTarget, kLittle);
  for (AddOp add : sum.adds)
    rootOf[add] = root;
}

void Finder::addUses(Value value, unsigned node) {
  if (value.use_empty())
    return;
  unsigned whole = reduced[value] = cut.addNode();
  cut.addEdge(node, whole, costOf(value));
  auto mayRead = [&](unsigned user) {
    cut.addEdge(user, node, MinCut::kUncuttable);
    cut.addEdge(user, whole, kLittle);
  };
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto it = sumOf.find(&use); it != sumOf.end()) {
      cut.addEdge(whole, it->second.terms, MinCut::kUncuttable);
      if (parts.count(it->second.root))
        mayRead(parts[it->second.root].node);
    } else if (auto it = parts.find(user);
               it != parts.end() && llvm::is_contained(it->second.operands, use.getOperandNumber())) {
      cut.addEdge(whole, it->second.node, MinCut::kUncuttable);
      mayRead(it->second.node);
    } else {
      cut.addEdge(whole, MinCut::kTarget, MinCut::kUncuttable);
    }
  }
}

Frontier Finder::read(const std::vector<bool> &side) {
  Frontier frontier;
  for (Operation &op : block) {
    auto it = parts.find(rootOf.lookup_or(&op, &op));
    if (it != parts.end() && side[it->second.node] && !it->second.isAccumulator)
      frontier.ops.push_back({&op, it->second.operands});
  }
  for (auto &[use, sum] : sumOf) {
    Operation *term = use->get().getDefiningOp();
    auto root = parts.find(sum.root);
    bool goesOn = root != parts.end() && side[root->second.node];
    bool own = goesOn ? root->second.isAccumulator : bool(side[reduced[use->get()]]);
    if (side[parts[term].node] && own)
      frontier.terms.push_back(use);
  }
  return frontier;
}

Frontier llmc::findFrontier(Block &block, StringAttr axis, const Accumulators &accumulators) {
  return Finder(block, axis, accumulators).find();
}
