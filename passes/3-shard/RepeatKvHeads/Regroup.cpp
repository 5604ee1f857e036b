#include "passes/3-shard/RepeatKvHeads/Regroup.h"

#include "dialects/graph/Build.h"
#include "dialects/parallel/Annotations.h"
#include "passes/3-shard/RepeatKvHeads/Repeater.h"

#include <numeric>

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::DimFactors;
using graph::shapeOf;

namespace {

// Holds the positions of the two dimensions in a value.
struct Group {
  int64_t heads, repeats;
};

// Returns the dimension that is made of exactly these factors, or -1.
int64_t dimOf(const graph::TensorFactors &tensor, const DimFactors &factors) {
  for (auto [d, own] : llvm::enumerate(tensor))
    if (own == factors)
      return d;
  return -1;
}

// Collects the values that have both dimensions, and the sums that end them.
class RegroupedValues {
public:
  // Follows all uses of `start`. Returns false if a user needs the two dimensions as they are, or
  // if they never end.
  bool grow(Value start, Group group) {
    add(start, group);
    for (size_t i = 0; i < values.size(); ++i) {
      auto [value, own] = values[i]; // copied: the list grows
      for (OpOperand &use : value.getUses())
        if (!follow(use, own))
          return false;
    }
    return ends;
  }

  void regroup(int64_t kvHeads, int64_t heads, int64_t repeats) {
    for (auto [value, group] : values) {
      SmallVector<int64_t> shape(shapeOf(value));
      shape[group.heads] = heads;
      shape[group.repeats] = repeats;
      value.setType(RankedTensorType::get(shape, graph::elementOf(value)));
    }
    for (auto [op, dim] : sums)
      Repeater(op, kvHeads, heads).sumResult(0, dim);
  }

private:
  void add(Value value, Group group) {
    if (seen.insert(value).second)
      values.push_back({value, group});
  }

  bool follow(OpOperand &use, Group group) {
    Operation *user = use.getOwner();
    auto compute = dyn_cast<graph::GraphOpInterface>(user);
    if (!compute)
      return false;
    graph::ShardingRule rule = compute.getShardingRule();
    const graph::TensorFactors &own = rule.operands[use.getOperandNumber()];
    DimFactors heads = own[group.heads], repeats = own[group.repeats];
    if (heads.size() != 1 || repeats.size() != 1)
      return false;
    if (isa<graph::ReshapeOp>(user) && dimOf(rule.results[0], {heads[0], repeats[0]}) >= 0)
      return ends = true;
    if (isa<graph::ReduceOp>(user) &&
        rule.factors[repeats[0]].kind == graph::FactorKind::ReducedSum) {
      int64_t dim = dimOf(rule.results[0], heads);
      sums.push_back({user, dim});
      return ends = dim >= 0;
    }
    if (!isa<graph::ReshapeOp, graph::TransposeOp>(user) &&
        compute.getEmitClass() != graph::EmitClass::Elementwise)
      return false;
    for (auto [i, tensor] : llvm::enumerate(rule.operands))
      if (i != use.getOperandNumber() && (dimOf(tensor, heads) >= 0 || dimOf(tensor, repeats) >= 0))
        return false; // another operand with these dims is not regrouped
    for (auto [result, tensor] : llvm::zip(user->getResults(), rule.results)) {
      Group next = {dimOf(tensor, heads), dimOf(tensor, repeats)};
      if (next.heads < 0 || next.repeats < 0)
        return false;
      add(result, next);
    }
    return true;
  }

  SmallVector<std::pair<Value, Group>> values;
  SmallVector<std::pair<Operation *, int64_t>> sums; // with the heads' dim in the result
  llvm::DenseSet<Value> seen;
  bool ends = false;
};

// Returns the pairs of dimensions that the op makes of one: repeats of a broadcast, or the parts of
// a reshape.
SmallVector<Group> findGroups(Operation *op) {
  SmallVector<Group> groups;
  graph::ShardingRule rule = cast<graph::GraphOpInterface>(op).getShardingRule();
  const graph::TensorFactors &from = rule.operands[0], &to = rule.results[0];
  for (int64_t h = 0; h < int64_t(to.size()); ++h)
    for (int64_t r = 0; r < int64_t(to.size()); ++r) {
      if (h == r || to[h].size() != 1 || to[r].size() != 1)
        continue;
      bool made = isa<graph::BroadcastOp>(op) ? dimOf(from, to[h]) >= 0 && dimOf(from, to[r]) < 0
                                              : dimOf(from, {to[h][0], to[r][0]}) >= 0;
      if (made)
        groups.push_back({h, r});
    }
  return groups;
}

} // namespace

bool llmc::regroupHeads(Operation *op, int64_t parts) {
  bool parted = isa<graph::ReshapeOp>(op) && op->hasAttr(kBackward);
  if (!parted && !isa<graph::BroadcastOp>(op))
    return false;
  Value result = op->getResult(0);
  for (Group group : findGroups(op)) {
    int64_t kvHeads = shapeOf(result)[group.heads], repeats = shapeOf(result)[group.repeats];
    int64_t heads = std::lcm(kvHeads, parts);
    if (kvHeads == 1 || kvHeads % parts == 0 || kvHeads * repeats % heads != 0)
      continue;
    RegroupedValues grouped;
    if (!grouped.grow(result, group))
      continue;
    if (!parted) {
      graph::ShardingRule rule = cast<graph::GraphOpInterface>(op).getShardingRule();
      Repeater(op, kvHeads, heads)
          .repeatOperand(0, dimOf(rule.operands[0], rule.results[0][group.heads]));
    }
    grouped.regroup(kvHeads, heads, kvHeads * repeats / heads);
    return true;
  }
  return false;
}
