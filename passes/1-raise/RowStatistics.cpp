#include "passes/1-raise/RowStatistics.h"

#include <cmath>

using namespace mlir;
using namespace llmc;
using namespace llmc::graph;

static Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

bool raise::isPerRow(Value value, Value x) {
  SmallVector<int64_t> shape(shapeOf(x));
  shape.back() = 1;
  return shapeOf(value) == ArrayRef<int64_t>(shape);
}

bool raise::isVectorOf(Value value, Value x) { return shapeOf(value) == shapeOf(x).take_back(1); }

// Returns the sum over the last dim that `value` divides by the dim's size; else null.
static ReduceOp dividedSum(Value value) {
  Operation *op = withoutReshapes(value).getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op))
    return {};
  for (unsigned i : {0u, 1u}) {
    auto number = raise::scalarOf(op->getOperand(i));
    if (!number || (i == 0 && isa<DivOp>(op)))
      continue;
    double factor = isa<DivOp>(op) ? 1 / *number : *number;
    auto reduce = withoutReshapes(op->getOperand(1 - i)).getDefiningOp<ReduceOp>();
    if (!reduce)
      return {};
    ArrayRef<int64_t> shape = shapeOf(reduce.getOperand());
    bool last = reduce.getDims() == ArrayRef<int64_t>(int64_t(shape.size()) - 1);
    return last && std::abs(factor * shape.back() - 1) <= 1e-6 ? reduce : ReduceOp();
  }
  return {};
}

Value raise::meanOf(Value value) {
  ReduceOp sum = dividedSum(value);
  return sum && sum.getKind() == ReduceKind::sum ? sum.getOperand() : Value();
}

// Returns x if `value` is x * x, x ^ 2 or |x| ^ 2; else null.
static Value squareRootOf(Value value) {
  Value root;
  if (auto power = value.getDefiningOp<PowOp>())
    root = power.getExponent().convertToDouble() == 2 ? power.getOperand() : Value();
  if (auto product = value.getDefiningOp<MulOp>())
    root = product.getLhs() == product.getRhs() ? product.getLhs() : Value();
  auto magnitude = root ? root.getDefiningOp<AbsOp>() : AbsOp();
  return magnitude ? magnitude.getOperand() : root;
}

Value raise::meanSquareOf(Value value) {
  ReduceOp sum = dividedSum(value);
  if (!sum)
    return {};
  if (sum.getKind() == ReduceKind::sum_squares)
    return sum.getOperand();
  return sum.getKind() == ReduceKind::sum ? squareRootOf(sum.getOperand()) : Value();
}

Value raise::deviationOf(Value value, bool inverse, double &eps) {
  value = withoutReshapes(value);
  Value inner;
  if (auto rsqrt = value.getDefiningOp<RsqrtOp>(); rsqrt && inverse)
    inner = rsqrt.getOperand();
  if (auto sqrt = value.getDefiningOp<SqrtOp>(); sqrt && !inverse)
    inner = sqrt.getOperand();
  if (auto power = value.getDefiningOp<PowOp>()) {
    double exponent = power.getExponent().convertToDouble();
    if (exponent == (inverse ? -0.5 : 0.5))
      inner = power.getOperand();
    if (exponent == -1 && inverse)
      return deviationOf(power.getOperand(), false, eps);
  }
  if (auto quotient = value.getDefiningOp<DivOp>(); quotient && inverse)
    if (scalarOf(quotient.getLhs()) == 1.0)
      return deviationOf(quotient.getRhs(), false, eps);
  if (!inner)
    return {};
  auto sum = withoutReshapes(inner).getDefiningOp<AddOp>();
  for (unsigned i : {0u, 1u})
    if (auto number = sum ? scalarOf(sum->getOperand(i)) : std::nullopt) {
      eps = *number;
      return sum->getOperand(1 - i);
    }
  eps = 0;
  return inner;
}
