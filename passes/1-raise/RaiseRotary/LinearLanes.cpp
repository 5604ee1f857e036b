#include "passes/1-raise/RaiseRotary/Lanes.h"

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;
using namespace llmc::raise;

static int64_t count(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return n;
}

// Calls `body(index)` for every index of `shape`, in row-major order.
template <typename Body> static void forEachIndex(ArrayRef<int64_t> shape, Body body) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0, n = count(shape); i < n; ++i) {
    body(ArrayRef<int64_t>(index));
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

static int64_t flat(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip(index, shape))
    position = position * size + (size == 1 ? 0 : i);
  return position;
}

bool raise::operator==(const Movement::Part &a, const Movement::Part &b) {
  return a.size == b.size && a.stride == b.stride;
}

static void dropTrailingOnes(LeadingDims &frame) {
  while (!frame.empty() && frame.back().empty())
    frame.pop_back();
}

LinearLanes::LinearLanes(Value x) : x(x) {
  LeadingDims frame;
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(shapeOf(x).drop_back())) {
    frame.insert(frame.begin(), contiguousDim(size, stride));
    stride *= size;
  }
  dropTrailingOnes(frame);
  linear[x] = std::make_unique<LeadingDims>(frame);
}

bool LinearLanes::isLinear(Value value) {
  auto known = linear.find(value);
  if (known != linear.end())
    return known->second != nullptr;
  Operation *op = value.getDefiningOp();
  auto found = op ? find(op, value) : std::nullopt;
  linear[value] = found ? std::make_unique<LeadingDims>(*found) : nullptr;
  return found.has_value();
}

// Returns the frame after a reshape, if the dims in front of the lanes keep their number of
// elements.
std::optional<LeadingDims> LinearLanes::reshaped(LeadingDims frame, Value from, Value to) const {
  int64_t all = count(shapeOf(from).take_front(frame.size())), reached = 1;
  size_t dims = 0;
  while (reached < all && dims < shapeOf(to).size())
    reached *= shapeOf(to)[dims++];
  if (reached != all || !regroup(frame, shapeOf(to).take_front(dims)))
    return std::nullopt;
  return frame;
}

// Returns the frame after a transpose, if lanes stay behind the other dims, in their order.
std::optional<LeadingDims> LinearLanes::transposed(const LeadingDims &frame, TransposeOp op) const {
  LeadingDims moved;
  int64_t lane = -1;
  for (int64_t dim : op.getPermutation()) {
    bool single = shapeOf(op.getOperand())[dim] == 1, isLane = dim >= int64_t(frame.size());
    if (single && lane < 0)
      moved.push_back({});
    if (single)
      continue;
    if (lane >= 0 && (!isLane || dim < lane))
      return std::nullopt;
    if (isLane)
      lane = dim;
    else
      moved.push_back(frame[dim]);
  }
  dropTrailingOnes(moved);
  return moved;
}

std::optional<LeadingDims> LinearLanes::find(Operation *op, Value value) {
  if (isa<MulOp>(op)) {
    for (unsigned side : {0u, 1u})
      if (op->getOperand(side).getType() == value.getType() && isLinear(op->getOperand(side)) &&
          !isLinear(op->getOperand(1 - side)))
        return frameOf(op->getOperand(side));
    return std::nullopt;
  }
  if (!isa<NegOp, AddOp, SubOp, ConcatOp, ReshapeOp, TransposeOp, SliceOp>(op) ||
      !llvm::all_of(op->getOperands(), [&](Value v) { return isLinear(v); }))
    return std::nullopt;
  Value first = op->getOperand(0);
  const LeadingDims &frame = frameOf(first);
  if (isa<AddOp, SubOp>(op) && first.getType() != op->getOperand(1).getType())
    return std::nullopt;
  if (llvm::any_of(op->getOperands(), [&](Value v) { return frameOf(v) != frame; }))
    return std::nullopt;
  if (auto concat = dyn_cast<ConcatOp>(op); concat && concat.getDim() < frame.size())
    return std::nullopt;
  if (isa<ReshapeOp>(op))
    return reshaped(frame, first, value);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transposed(frame, transpose);
  if (shapeOf(first).take_front(frame.size()) != shapeOf(value).take_front(frame.size()))
    return std::nullopt; // a slice of other dims
  return frame;
}

ArrayRef<int64_t> LinearLanes::lanesShape(Value value) const {
  return shapeOf(value).drop_front(frameOf(value).size());
}

const std::vector<Terms> &LinearLanes::lanesOf(Value value) {
  auto known = lanes.find(value);
  if (known != lanes.end())
    return known->second;
  std::vector<Terms> computed = compute(value);
  return lanes[value] = std::move(computed);
}

std::vector<Terms> LinearLanes::product(Operation *op) {
  unsigned side = isLinear(op->getOperand(0)) && op->getOperand(0).getType() ==
                                                     op->getResult(0).getType()
                      ? 0
                      : 1;
  std::vector<Terms> result = lanesOf(op->getOperand(side));
  Value table = op->getOperand(1 - side);
  if (auto number = scalarOf(table)) {
    for (Terms &terms : result)
      for (Term &term : terms)
        term.factor *= *number;
    return result;
  }
  // The table's lanes are those of its dims that align with the lanes of x.
  Value value = op->getResult(0);
  ArrayRef<int64_t> shape = lanesShape(value), own = shapeOf(table);
  own = own.take_back(std::min(own.size(), shape.size()));
  while (own.size() > 1 && own.front() == 1)
    own = own.drop_front();
  LeadingDims &frame = frames.emplace_back(frameOf(value));
  frame.resize(shapeOf(value).size() - own.size());
  int64_t lane = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    TableLane factor{table, int64_t(own.size()), flat(index.take_back(own.size()), own),
                     &frame};
    for (Term &term : result[lane]) {
      if (term.table.table)
        term.factor = std::numeric_limits<double>::quiet_NaN(); // two tables: no rotation
      term.table = factor;
    }
    ++lane;
  });
  return result;
}

std::vector<Terms> LinearLanes::compute(Value value) {
  if (value == x) {
    std::vector<Terms> identity;
    for (int64_t lane = 0; lane < shapeOf(x).back(); ++lane)
      identity.push_back({Term{1, lane, {}}});
    return identity;
  }
  Operation *op = value.getDefiningOp();
  if (isa<MulOp>(op))
    return product(op);
  if (isa<ReshapeOp, TransposeOp>(op))
    return lanesOf(op->getOperand(0));
  size_t leading = frameOf(value).size();
  ArrayRef<int64_t> shape = lanesShape(value);
  std::vector<Terms> result;
  if (auto slice = dyn_cast<SliceOp>(op)) {
    const auto &from = lanesOf(slice.getOperand());
    ArrayRef<int64_t> whole = lanesShape(slice.getOperand());
    forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> at;
      for (auto [i, start, step] : llvm::zip(index, slice.getStarts().drop_front(leading),
                                             slice.getSteps().drop_front(leading)))
        at.push_back(start + i * step);
      result.push_back(from[flat(at, whole)]);
    });
    return result;
  }
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    size_t dim = concat.getDim() - leading;
    for (Value part : concat.getInputs())
      (void)lanesOf(part); // a reference does not outlive the next insertion
    forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> at(index);
      for (Value part : concat.getInputs()) {
        ArrayRef<int64_t> partShape = lanesShape(part);
        if (at[dim] < partShape[dim]) {
          result.push_back(lanesOf(part)[flat(at, partShape)]);
          return;
        }
        at[dim] -= partShape[dim];
      }
    });
    return result;
  }
  // The remaining ops are sums, differences and negatives.
  result = lanesOf(op->getOperand(0));
  if (isa<NegOp>(op))
    for (Terms &terms : result)
      for (Term &term : terms)
        term.factor = -term.factor;
  if (op->getNumOperands() == 2)
    for (auto [terms, more] : llvm::zip(result, lanesOf(op->getOperand(1))))
      for (Term term : more) {
        term.factor *= isa<SubOp>(op) ? -1 : 1;
        terms.push_back(term);
      }
  return result;
}
