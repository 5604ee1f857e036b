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

LinearLanes::LinearLanes(Value x) : x(x), leading(shapeOf(x).size() - 1) { linear[x] = true; }

bool LinearLanes::isLinear(Value value) {
  auto known = linear.find(value);
  if (known != linear.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  ArrayRef<int64_t> shape = shapeOf(value);
  bool fits = op && shape.size() > leading &&
              shape.take_front(leading) == shapeOf(x).take_front(leading);
  bool found = fits && find(op, value);
  linear[value] = found;
  return found;
}

bool LinearLanes::find(Operation *op, Value value) {
  auto all = [&] { return llvm::all_of(op->getOperands(), [&](Value v) { return isLinear(v); }); };
  if (isa<NegOp>(op))
    return all();
  if (isa<AddOp, SubOp>(op))
    return op->getOperand(0).getType() == op->getOperand(1).getType() && all();
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concat.getDim() >= leading && all();
  if (isa<ReshapeOp>(op))
    return shapeOf(op->getOperand(0)).size() > leading && all();
  if (auto slice = dyn_cast<SliceOp>(op))
    return shapeOf(slice.getOperand()).take_front(leading) ==
               shapeOf(value).take_front(leading) &&
           all();
  if (isa<MulOp>(op))
    for (unsigned side : {0u, 1u})
      if (op->getOperand(side).getType() == value.getType() && isLinear(op->getOperand(side)))
        return !isLinear(op->getOperand(1 - side));
  return false;
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
  // The table's lanes are those of its dims that meet the lanes of x.
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0)).drop_front(leading), own = shapeOf(table);
  own = own.take_back(std::min(own.size(), shape.size()));
  int64_t lane = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    TableLane factor{table, int64_t(own.size()), flat(index.take_back(own.size()), own)};
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
  if (isa<ReshapeOp>(op))
    return lanesOf(op->getOperand(0));
  ArrayRef<int64_t> shape = shapeOf(value).drop_front(leading);
  std::vector<Terms> result;
  if (auto slice = dyn_cast<SliceOp>(op)) {
    const auto &from = lanesOf(slice.getOperand());
    ArrayRef<int64_t> whole = shapeOf(slice.getOperand()).drop_front(leading);
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
        ArrayRef<int64_t> partShape = shapeOf(part).drop_front(leading);
        if (at[dim] < partShape[dim]) {
          result.push_back(lanesOf(part)[flat(at, partShape)]);
          return;
        }
        at[dim] -= partShape[dim];
      }
    });
    return result;
  }
  // A sum, a difference or a negative.
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
