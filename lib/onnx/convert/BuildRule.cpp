#include "lib/onnx/convert/BuildRule.h"

#include "llvm/ADT/bit.h"

using namespace llmc;
using namespace llmc::onnximport;
using namespace mlir;
using llmc::support::IntervalRule;
using llmc::support::Result;

// Builds positions 0, 1, ... along `dim`; the other dims are 1.
static Value positions(graph::Build &build, int64_t size, size_t dim, size_t rank) {
  auto type = RankedTensorType::get({size}, build.builder.getI64Type());
  Shape shape(rank, 1);
  shape[dim] = size;
  return build.reshape(graph::IotaOp::create(build.builder, build.loc, type, Value(), 0), shape);
}

// Returns the distance of bounds that follow the diagonal between 0 and `keys`; nullopt if they
// do not.
static std::optional<int64_t> diagonalOf(llvm::ArrayRef<int64_t> bounds, int64_t keys) {
  for (auto [row, bound] : llvm::enumerate(bounds)) {
    if (bound == 0 || bound == keys)
      continue;
    int64_t distance = bound - int64_t(row);
    for (auto [i, other] : llvm::enumerate(bounds))
      if (other != std::clamp<int64_t>(int64_t(i) + distance, 0, keys))
        return std::nullopt;
    return distance;
  }
  return std::nullopt;
}

Value RuleBuilder::boundOf(graph::Build &build, llvm::ArrayRef<int64_t> bounds, int64_t keys,
                           llvm::ArrayRef<int64_t> shape, size_t dim) {
  if (auto distance = diagonalOf(bounds, keys)) {
    Value rows = positions(build, shape[dim], dim, shape.size());
    return *distance ? build.add(rows, number(build, *distance, Element::I64)) : rows;
  }
  HostTensor list = HostTensor::vector(bounds);
  list.shape.assign(shape.size(), 1);
  list.shape[dim] = bounds.size();
  return constants_.get(collapseEqualDims(std::move(list)), build.loc);
}

Value RuleBuilder::number(graph::Build &build, double value, Element element) {
  HostTensor scalar(element, Shape());
  scalar.set(0, value);
  return constants_.get(scalar, build.loc);
}

Value RuleBuilder::seenBy(graph::Build &build, const IntervalRule &rule,
                          llvm::ArrayRef<int64_t> shape) {
  int64_t keys = shape[rule.keyDim];
  Value key = positions(build, keys, rule.keyDim, shape.size()), seen;
  auto both = [&](Value next) {
    seen = seen ? Value(graph::AndOp::create(build.builder, build.loc, seen, next)) : next;
  };
  // A row without a key has the bounds 0 and 0.
  if (!llvm::all_of(rule.last, [&](int64_t last) { return last == keys; }))
    both(build.compare(key, boundOf(build, rule.last, keys, shape, rule.rowDim),
                       graph::Predicate::lt));
  if (!llvm::all_of(rule.first, [](int64_t first) { return first == 0; }))
    both(build.compare(key, boundOf(build, rule.first, keys, shape, rule.rowDim),
                       graph::Predicate::ge));
  return seen;
}

Result<Value> RuleBuilder::build(const SymbolicConstant &symbolic, const Node &node) {
  auto [found, added] = built_.try_emplace(symbolic);
  if (!added)
    return found->second;
  Element element = symbolic->element;
  auto rule = support::intervalRuleOf(*symbolic->definition, element == Element::Bool ? 1 : 0);
  if (!rule)
    return rule.takeError();
  if (!*rule)
    return Value();
  Shape shape = symbolic->shape();
  IntervalRule &is = **rule;
  Value &made = rules_[Key(shape, {is.rowDim, is.keyDim}, is.first, is.last, llvm::bit_cast<uint64_t>(is.inside),
                           llvm::bit_cast<uint64_t>(is.outside), element)];
  if (made)
    return found->second = made;
  graph::Build build(builder_, NameLoc::get(builder_.getStringAttr(node.name())));
  Value seen = seenBy(build, is, shape);
  if (!seen)
    made = number(build, is.inside, element);
  else if (element == Element::Bool)
    made = is.inside ? seen : Value(graph::NotOp::create(builder_, build.loc, seen));
  else
    made = build.select(seen, number(build, is.inside, element), number(build, is.outside, element));
  made = build.broadcast(made, shape);
  return found->second = made;
}
