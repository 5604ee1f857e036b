#include "lib/onnx/fold/Constant.h"

#include "llvm/ADT/StringSet.h"

#include <deque>

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;
using llmc::support::Result;

Constant::Constant(HostTensor tensor) : shape(tensor.shape) {
  held = collapseEqualDims(std::move(tensor));
}

Constant::Constant(HostTensor tensor, llvm::ArrayRef<int64_t> to)
    : held(collapseEqualDims(std::move(tensor))), shape(to) {
  held.shape.insert(held.shape.begin(), shape.size() - held.shape.size(), 1);
}

static Result<HostTensor> expand(const HostTensor &held, llvm::ArrayRef<int64_t> shape) {
  if (llvm::ArrayRef<int64_t>(held.shape) == shape)
    return HostTensor(held);
  if (auto s = checkHostSize(shape); !s)
    return s.takeError();
  return takeStrided(held, shape, broadcastStrides(held.shape, shape));
}

// Returns `held` itself if it has the shape, else its expansion, which is kept in `made`.
static Result<const HostTensor *> expanded(const HostTensor &held, llvm::ArrayRef<int64_t> shape,
                                           std::deque<HostTensor> &made) {
  if (llvm::ArrayRef<int64_t>(held.shape) == shape)
    return &held;
  auto whole = expand(held, shape);
  if (!whole)
    return whole.takeError();
  return &made.emplace_back(std::move(*whole));
}

Result<HostTensor> Constant::dense() const { return expand(held, shape); }

namespace {

using Operands = llvm::ArrayRef<const Constant *>;
using Folded = Result<std::vector<Constant>>;

Folded one(Result<std::vector<HostTensor>> result, Result<Shape> shape) {
  if (!result)
    return result.takeError();
  if (!shape)
    return shape.takeError();
  return std::vector<Constant>{Constant(std::move((*result)[0]), *shape)};
}

// Folds an elementwise op: dims along which all operands repeat repeat in the result.
Folded foldElementwise(const Node &node, FoldFunction fold, Operands operands) {
  std::vector<const HostTensor *> held;
  Shape shape;
  for (const Constant *c : operands) {
    held.push_back(c ? &c->held : nullptr);
    if (!c)
      continue;
    auto joined = broadcastShapes(shape, c->shape);
    if (!joined)
      return error("shapes ", toText(shape), " and ", toText(c->shape), " do not broadcast");
    shape = *joined;
  }
  return one(fold({node, held}), shape);
}

Folded foldExpand(const Node &node, const Constant &in, const HostTensor &target) {
  auto shape = broadcastShapes(in.shape, target.ints);
  if (!shape)
    return error("shape ", toText(in.shape), " does not broadcast to ", toText(target.ints));
  return std::vector<Constant>{Constant(in.held, *shape)};
}

// Folds ConstantOfShape: all dims repeat.
Folded foldFilled(const Node &node, FoldFunction fold, Operands operands,
                  const HostTensor &sizes) {
  Shape shape(sizes.ints.begin(), sizes.ints.end());
  if (!countElements(shape))
    return error("shape ", toText(shape), " has a negative dim, or too many elements");
  HostTensor scalar = HostTensor::vector(Shape());
  std::vector<const HostTensor *> operandsOfScalar = {&scalar};
  for (const Constant *value : operands.drop_front())
    operandsOfScalar.push_back(value ? &value->held : nullptr); // one may be left out
  return one(fold({node, operandsOfScalar}), shape);
}

// Folds Concat: a dim other than the axis repeats in the result only if it does in all parts.
Folded foldConcat(const Node &node, FoldFunction fold, Operands operands) {
  if (operands.empty() || !operands[0])
    return error("the first part is missing");
  Shape shape = operands[0]->shape, held = operands[0]->held.shape;
  auto axis = normalAxis(node.integer("axis", 0), shape.size());
  if (!axis)
    return error("axis ", node.integer("axis", 0), " is not one of ", shape.size(), " dims");
  int64_t length = 0;
  for (const Constant *c : operands) {
    if (!c || c->shape.size() != shape.size())
      return error("parts differ in rank");
    for (size_t d = 0; d < shape.size(); ++d) {
      held[d] = std::max(held[d], c->held.shape[d]);
      if (static_cast<int64_t>(d) != *axis && c->shape[d] != shape[d])
        return error("shapes ", toText(shape), " and ", toText(c->shape),
                     " do not concatenate");
    }
    length += c->shape[*axis];
  }
  // A dim of size 0 may be held as 1 by one part and as 0 by another.
  for (size_t d = 0; d < shape.size(); ++d)
    held[d] = std::min(held[d], shape[d]);
  std::deque<HostTensor> parts;
  std::vector<const HostTensor *> pointers;
  for (const Constant *c : operands) {
    held[*axis] = c->shape[*axis];
    auto part = expanded(c->held, held, parts);
    if (!part)
      return part.takeError();
    pointers.push_back(*part);
  }
  shape[*axis] = length;
  return one(fold({node, pointers}), shape);
}

// Folds Gather along the first axis and GatherND: the dims of the indices (without the tuple) are
// the leading dims of the result, and repeat as those do.
Folded foldLookup(const Node &node, FoldFunction fold, const Constant &data,
                  const Constant &ids) {
  bool tuples = node.op() == "GatherND";
  std::deque<HostTensor> made;
  auto whole = expanded(data.held, data.shape, made);
  if (!whole)
    return whole.takeError();
  Shape held = ids.held.shape, leading = ids.shape;
  if (tuples && !held.empty()) {
    held.back() = ids.shape.back();
    leading.pop_back();
  }
  auto indices = expanded(ids.held, held, made);
  if (!indices)
    return indices.takeError();
  auto result = fold({node, {*whole, *indices}});
  if (!result)
    return result.takeError();
  Shape shape = leading;
  llvm::ArrayRef<int64_t> own((*result)[0].shape);
  shape.append(own.begin() + leading.size(), own.end());
  return one(std::move(result), shape);
}

Folded foldDense(const Node &node, FoldFunction fold, Operands operands) {
  std::deque<HostTensor> made;
  std::vector<const HostTensor *> pointers;
  for (const Constant *c : operands) {
    pointers.push_back(nullptr);
    if (!c)
      continue;
    auto tensor = expanded(c->held, c->shape, made);
    if (!tensor)
      return tensor.takeError();
    pointers.back() = *tensor;
  }
  auto result = fold({node, pointers});
  if (!result)
    return result.takeError();
  std::vector<Constant> out;
  for (HostTensor &tensor : *result)
    out.emplace_back(std::move(tensor));
  return out;
}

} // namespace

Result<std::vector<Constant>>
llmc::onnximport::foldConstants(const Node &node, FoldFunction fold, Operands operands) {
  static const llvm::StringSet<> counted = {"Clip", "CastLike"}; // other operands do not broadcast
  llvm::StringRef op = node.op();
  bool first = !operands.empty() && operands[0];
  bool second = operands.size() > 1 && operands[1];
  if (first && findArithmeticFold(op) && !counted.contains(op))
    return foldElementwise(node, fold, operands);
  if (first && second && op == "Expand" && !operands[1]->held.isFloat())
    if (auto target = operands[1]->dense())
      return foldExpand(node, *operands[0], *target);
  if (first && op == "ConstantOfShape" && !operands[0]->held.isFloat())
    if (auto sizes = operands[0]->dense())
      return foldFilled(node, fold, operands, *sizes);
  if (first && op == "Concat")
    return foldConcat(node, fold, operands);
  if (first && second && op == "Unsqueeze")
    if (auto axes = operands[1]->dense())
      return one(fold({node, {&operands[0]->held, &*axes}}),
                 unsqueezedShape(node, operands[0]->shape, &*axes));
  bool leading = op == "GatherND" || (op == "Gather" && node.integer("axis", 0) == 0);
  if (first && second && leading && !operands[1]->held.isFloat() && !operands[0]->shape.empty())
    return foldLookup(node, fold, *operands[0], *operands[1]);
  return foldDense(node, fold, operands);
}
