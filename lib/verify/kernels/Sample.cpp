// Propagates demanded regions from results to arguments, op by op in reverse, and clones each op
// with the smaller types.
#include "lib/verify/kernels/Sample.h"

#include "dialects/graph/Build.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>

using namespace mlir;

namespace llmc::verify {

using graph::BoundedTensor;
using graph::FactorKind;
using graph::ShardingRule;

Sample::Sample(Block &body, ArrayRef<Region> wanted, int64_t terms)
    : body(&body), terms(terms), clones(std::make_unique<Block>()) {
  for (auto [value, region] : llvm::zip(body.getTerminator()->getOperands(), wanted))
    demand(value, region);
  for (Operation &op : llvm::reverse(body.without_terminator()))
    plan(&op);
  std::reverse(steps.begin(), steps.end());
  for (BlockArgument argument : body.getArguments()) {
    arguments.push_back(demanded.lookup(argument));
    made[argument] = arguments.back();
  }
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(made.lookup(value));
}

double Sample::flops() const {
  double flops = 0;
  for (const Step &step : steps)
    for (const Piece &piece : step.pieces) {
      flops += cast<graph::GraphOpInterface>(piece.op).getFlops();
      for (const Region &region : piece.operands)
        flops += double(volume(region));
    }
  return flops;
}

void Sample::demand(Value value, const Region &region) {
  auto [at, isNew] = demanded.try_emplace(value, region);
  if (!isNew)
    at->second = unite(at->second, region);
}

void Sample::plan(Operation *op) {
  if (llvm::none_of(op->getResults(), [&](Value v) { return demanded.count(v); }))
    return;
  Step step{op, {}, {}};
  if (auto attention = dyn_cast<graph::AttentionOp>(op))
    planAttention(attention, step);
  else if (auto gradient = dyn_cast<graph::AttentionGradOp>(op))
    planAttention(gradient, step);
  else
    planByRule(cast<graph::GraphOpInterface>(op), step);
  for (auto [value, region] : llvm::zip(op->getResults(), step.results))
    made[value] = region;
  for (const Piece &piece : step.pieces)
    for (auto [value, region] : llvm::zip(op->getOperands(), piece.operands))
      demand(value, region);
  steps.push_back(std::move(step));
}

//===-- Any op, by its factors ----------------------------------------------===//

// Returns whether the factors of a dim cover all of it.
static bool covers(const ShardingRule &rule, const graph::DimFactors &dim, int64_t size) {
  int64_t product = 1;
  for (unsigned factor : dim)
    product *= rule.factors[factor].size;
  return !dim.empty() && product == size;
}

static Region regionOf(const ShardingRule &rule, ArrayRef<std::optional<IndexSet>> picked,
                       const graph::TensorFactors &dims, ArrayRef<int64_t> shape) {
  Region region;
  for (auto [dim, size] : llvm::zip(dims, shape)) {
    if (!covers(rule, dim, size)) {
      region.push_back(IndexSet::all(size));
      continue;
    }
    std::vector<IndexSet> parts;
    for (unsigned factor : dim)
      parts.push_back(picked[factor].value_or(IndexSet::all(rule.factors[factor].size)));
    region.push_back(product(parts));
  }
  return region;
}

void Sample::planByRule(graph::GraphOpInterface op, Step &step) {
  ShardingRule rule = op.getShardingRule();
  std::vector<std::optional<IndexSet>> picked(rule.factors.size());
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results)) {
    auto wanted = demanded.find(value);
    for (auto [d, dim] : llvm::enumerate(dims)) {
      if (!covers(rule, dim, graph::shapeOf(value)[d]))
        continue;
      SmallVector<int64_t> sizes;
      for (unsigned factor : dim)
        sizes.push_back(rule.factors[factor].size);
      // Compute one index of results without a demand: the op computes all results at once.
      IndexSet asked = wanted == demanded.end() ? IndexSet::few(graph::shapeOf(value)[d], {0})
                                                : wanted->second[d];
      for (auto [factor, part] : llvm::zip(dim, project(asked, sizes))) {
        bool isFree = rule.factors[factor].kind == FactorKind::Parallel &&
                      static_cast<int>(factor) != rule.offsetFactor;
        if (!isFree)
          picked[factor] = IndexSet::all(rule.factors[factor].size);
        else if (wanted != demanded.end() || !picked[factor])
          picked[factor] = picked[factor] ? unite(*picked[factor], part) : part;
      }
    }
  }
  for (size_t f = 0; f < picked.size() && terms; ++f)
    if (!picked[f] && rule.factors[f].kind == FactorKind::ReducedSum &&
        static_cast<int>(f) != rule.offsetFactor)
      picked[f] = spreadIndices(rule.factors[f].size, terms);
  std::vector<Region> operands;
  for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
    operands.push_back(regionOf(rule, picked, dims, graph::shapeOf(value)));
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    step.results.push_back(regionOf(rule, picked, dims, graph::shapeOf(value)));
  addPiece(step, std::move(operands), step.results);
}

Sample::Piece &Sample::addPiece(Step &step, std::vector<Region> operands,
                                std::vector<Region> results) {
  IRMapping mapping;
  auto typeOf = [](Value value, const Region &region) {
    return RankedTensorType::get(shapeOf(region), graph::elementOf(value));
  };
  // Add an argument for each operand: a value may occur twice, each time with another region.
  SmallVector<Value> arguments;
  for (auto [value, region] : llvm::zip(step.op->getOperands(), operands))
    arguments.push_back(clones->addArgument(typeOf(value, region), step.op->getLoc()));
  Operation *clone = step.op->clone(mapping);
  clone->setOperands(arguments);
  for (auto [value, region] : llvm::zip(clone->getResults(), results))
    value.setType(typeOf(value, region));
  if (auto constant = dyn_cast<graph::ConstantOp>(clone))
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      constant.setValueAttr(splat.resizeSplat(cast<ShapedType>(clone->getResult(0).getType())));
  clones->push_back(clone);
  std::vector<bool> keeps(results.size(), true);
  step.pieces.push_back({clone, std::move(operands), std::move(results), std::move(keeps)});
  return step.pieces.back();
}

//===-- Attention -----------------------------------------------------------===//

namespace {
// Describes the selected part of the dims that the tensors of an attention share.
struct AttentionPart {
  IndexSet batch, rows, heads, kvHeads, keys, dim;

  Region q() const { return {batch, rows, heads, dim}; }
  Region kv() const { return {batch, keys, kvHeads, dim}; }
  Region lse() const { return {batch, rows, heads}; }
  Region mask(ArrayRef<int64_t> shape) const {
    Region region;
    const IndexSet parts[] = {batch, heads, rows, keys};
    for (auto [size, part] : llvm::zip(shape, parts))
      region.push_back(size == 1 ? IndexSet::all(1) : part);
    return region;
  }
};
} // namespace

// Returns the regions of the operands. Rows and keys of a part are consecutive, so that the op's
// offset, or its positions, determine where they are.
template <typename Op> static std::vector<Region> operandsOf(Op op, const AttentionPart &part) {
  unsigned q = std::is_same_v<Op, graph::AttentionGradOp> ? 1 : 0;
  std::vector<Region> regions;
  for (auto [i, value] : llvm::enumerate(op->getOperands().drop_back(op.getFurther().size()))) {
    if (graph::shapeOf(value).size() == 3)
      regions.push_back(part.lse());
    else
      regions.push_back(i == q + 1 || i == q + 2 ? part.kv() : part.q());
  }
  if (Value mask = op.getMask())
    regions.push_back(part.mask(graph::shapeOf(mask)));
  if (!op.getPositions().empty())
    for (const Region &places : {Region{part.rows}, Region{part.keys}})
      regions.push_back(places);
  if (!op.getDraws().empty())
    for (const Region &draw : {Region{part.batch}, Region{}, Region{part.rows}, Region{part.heads}, Region{part.keys}})
      regions.push_back(draw);
  return regions;
}

template <typename Op> void Sample::planAttention(Op op, Step &step) {
  constexpr bool isGradient = std::is_same_v<Op, graph::AttentionGradOp>;
  ArrayRef<int64_t> q = graph::shapeOf(op.getQ()), k = graph::shapeOf(op.getK());
  int64_t group = q[2] / k[2];
  AttentionPart all{IndexSet::all(q[0]), IndexSet::all(q[1]), IndexSet::all(q[2]),
                    IndexSet::all(k[2]), IndexSet::all(k[1]), IndexSet::all(q[3])};
  std::optional<IndexSet> batch, rows, kvHeads, keys, members;
  auto join = [](std::optional<IndexSet> &to, const IndexSet &more) {
    to = to ? unite(*to, more) : more;
  };
  for (auto [i, value] : llvm::enumerate(op->getResults())) {
    auto wanted = demanded.find(value);
    if (wanted == demanded.end())
      continue;
    join(batch, wanted->second[0]);
    if (isGradient && i > 0) {
      join(keys, wanted->second[1]);
      join(kvHeads, wanted->second[2]);
      continue;
    }
    join(rows, wanted->second[1]);
    std::vector<IndexSet> heads = project(wanted->second[2], {k[2], group});
    join(kvHeads, heads[0]);
    join(members, heads[1]);
  }
  all.batch = *batch;
  all.kvHeads = *kvHeads;
  all.heads = product({*kvHeads, isGradient ? IndexSet::all(group) : *members});
  auto add = [&](const AttentionPart &part, int64_t shift, bool byRows) {
    std::vector<Region> results{part.q(), isGradient ? part.kv() : part.lse()};
    if (isGradient)
      results.push_back(part.kv());
    Piece &piece = addPiece(step, operandsOf(op, part), std::move(results));
    if (op.getPositions().empty()) // which say themselves where a row is
      cast<Op>(piece.op).setOffset(static_cast<uint64_t>(int64_t(op.getOffset()) + shift));
    if (isGradient)
      piece.keeps = {byRows, !byRows, !byRows};
  };
  auto range = [](int64_t size, std::pair<int64_t, int64_t> run) {
    std::vector<int64_t> indices;
    for (int64_t i = run.first; i < run.second; ++i)
      indices.push_back(i);
    return IndexSet::few(size, indices);
  };
  AttentionPart made = all;
  made.rows = rows.value_or(IndexSet::few(q[1], {0}));
  made.keys = keys.value_or(IndexSet::few(k[1], {0}));
  step.results = {made.q(), isGradient ? made.kv() : made.lse()};
  if (isGradient)
    step.results.push_back(made.kv());
  for (auto run : made.rows.runs()) {
    AttentionPart part = all;
    part.rows = range(q[1], run);
    add(part, run.first, true);
  }
  if (!isGradient)
    return;
  for (auto run : made.keys.runs()) {
    AttentionPart part = all;
    part.keys = range(k[1], run);
    add(part, -run.first, false);
  }
}

//===-- Evaluate ------------------------------------------------------------===//

void Sample::runStep(const Step &step, llvm::DenseMap<Value, BoundedTensor> &values) const {
  std::vector<BoundedTensor> results;
  for (const Region &region : step.results)
    results.emplace_back(shapeOf(region));
  for (const Piece &piece : step.pieces) {
    std::vector<BoundedTensor> outputs;
    std::deque<BoundedTensor> parts;
    std::vector<const BoundedTensor *> inputs;
    for (auto [value, region] : llvm::zip(step.op->getOperands(), piece.operands)) {
      const BoundedTensor &whole = values.find(value)->second;
      inputs.push_back(&whole);
      // Pass the whole if it has as many elements: a part keeps their order.
      if (volume(region) == whole.size())
        continue;
      BoundedTensor &part = parts.emplace_back(shapeOf(region));
      auto to = part.data.begin();
      walk(made.find(value)->second, region, [&](int64_t i) { *to++ = whole.data[i]; });
      inputs.back() = &part;
    }
    for (auto [region, keeps] : llvm::zip(piece.results, piece.keeps))
      outputs.push_back(keeps ? BoundedTensor(shapeOf(region)) : BoundedTensor());
    cast<graph::GraphOpInterface>(piece.op).evaluateBounded(inputs, outputs);
    for (size_t r = 0; r < results.size(); ++r) {
      if (!piece.keeps[r])
        continue;
      auto from = outputs[r].data.begin();
      walk(step.results[r], piece.results[r], [&](int64_t i) { results[r].data[i] = *from++; });
    }
  }
  for (auto [value, tensor] : llvm::zip(step.op->getResults(), results))
    values[value] = std::move(tensor);
}

std::vector<BoundedTensor> Sample::evaluate(std::vector<BoundedTensor> given) const {
  llvm::DenseMap<Value, BoundedTensor> values;
  for (auto [argument, tensor] : llvm::zip(body->getArguments(), given))
    values[argument] = std::move(tensor);
  for (const Step &step : steps)
    runStep(step, values);
  std::vector<BoundedTensor> outputs;
  for (Value value : body->getTerminator()->getOperands())
    outputs.push_back(values.find(value)->second);
  return outputs;
}

} // namespace llmc::verify
