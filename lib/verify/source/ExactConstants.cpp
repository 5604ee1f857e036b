// Folds constants per op type and replaces the results by the exact numbers they round.
#include "lib/verify/source/ExactConstants.h"

#include "dialects/graph/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstdio>
#include <numbers>
#include <unordered_map>

using namespace mlir;

namespace llmc::verify {

//===-- One number ----------------------------------------------------------===//

// Returns the integer n near `value`, a power of the constant with its slack; 0 if there is none.
static double nearestCount(double value, double slack) {
  double n = std::round(value);
  // Reject large n: the roundings of the format do not determine it.
  bool isSmall = n >= 1 && n * slack <= 1.0 / 16;
  return isSmall && std::abs(value - n) <= slack * value ? n : 0;
}

// Returns the integer, its inverse, a root of either, or the constant of GELU near `size`; 0 if
// there is none.
static double meantRoot(double size, double slack) {
  if (double n = nearestCount(size, slack))
    return n;
  if (double n = nearestCount(1 / size, slack))
    return 1 / n;
  double square = size * size, fourth = square * square;
  if (double n = nearestCount(square, 2 * slack))
    return std::sqrt(n);
  if (double n = nearestCount(1 / square, 2 * slack))
    return 1 / std::sqrt(n);
  if (double n = nearestCount(fourth, 4 * slack))
    return std::sqrt(std::sqrt(n));
  if (double n = nearestCount(1 / fourth, 4 * slack))
    return 1 / std::sqrt(std::sqrt(n));
  const double outer = std::sqrt(2 / std::numbers::pi), cubic = 0.044715;
  for (double known : {outer, 2 * outer, cubic, outer * cubic, 2 * outer * cubic})
    if (std::abs(size - known) <= slack * size)
      return known;
  return 0;
}

static double shortestDecimal(double size, double slack) {
  for (int digits = 0; digits < 9; ++digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*e", digits, size);
    if (double decimal = std::strtod(text, nullptr); std::abs(size - decimal) <= slack * size)
      return decimal;
  }
  return size;
}

double exactValue(double value, double slack, double rootSlack) {
  double size = std::abs(value);
  if (!(size > 1e-30 && size < 1e30) || size == std::round(size))
    return value;
  double exact = meantRoot(size, std::max(slack, rootSlack));
  return std::copysign(exact > 0 ? exact : shortestDecimal(size, slack), value);
}

//===-- Whole modules -------------------------------------------------------===//

namespace {

constexpr int64_t kMaxElements = int64_t(1) << 24; // largest constant that is folded
// Exceeds half a unit by a little, for the roundings of the comparison itself.
constexpr double kRoundings = 1.001, kFloatSlack = kRoundings * 0x1p-24;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

// Returns half a unit in the last place; 0 for integers and double, which are exact.
double slackOf(Type element) {
  auto real = dyn_cast<FloatType>(element);
  if (!real || real.isF64())
    return 0;
  return kRoundings * std::ldexp(1.0, -static_cast<int>(real.getFPMantissaWidth()));
}

double roundedTo(double value, FloatType type) {
  APFloat number(value);
  bool loses;
  number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
  return number.convertToDouble();
}

struct Known {
  graph::Tensor plain; // computed in double, as evaluate() does
  graph::Tensor typed; // the result of each op rounded to its type
};

class Reader {
public:
  void read(Block &block);
  bool changed = false;

private:
  bool compute(Operation *op);
  void mean(Operation *op);
  Value constantFor(Value value);
  double meant(double value, double slack);

  llvm::DenseMap<Value, Known> known;
  llvm::DenseMap<Value, Value> constants;
  std::unordered_map<double, double> seen; // memo of exactValue() for `seenSlack`
  double seenSlack = 0;
};

double Reader::meant(double value, double slack) {
  if (slack != seenSlack) {
    seen.clear();
    seenSlack = slack;
  }
  if (!(std::abs(value) <= 1e30)) // NaN cannot be a key.
    return value;
  auto [found, isNew] = seen.try_emplace(value, value);
  if (isNew)
    found->second = exactValue(value, slack);
  return found->second;
}

bool Reader::compute(Operation *op) {
  auto graphOp = dyn_cast<graph::GraphOpInterface>(op);
  if (!graphOp || op->getNumRegions() || !isMemoryEffectFree(op))
    return false;
  for (Value operand : op->getOperands())
    if (!known.contains(operand))
      return false;
  for (Value result : op->getResults())
    if (typeOf(result).getNumElements() > kMaxElements)
      return false;
  SmallVector<const graph::Tensor *> plain, typed;
  for (Value operand : op->getOperands()) {
    plain.push_back(&known[operand].plain);
    typed.push_back(&known[operand].typed);
  }
  std::vector<graph::Tensor> plains = graph::evaluateOp(graphOp, plain);
  std::vector<graph::Tensor> types = graph::evaluateOp(graphOp, typed);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    auto real = dyn_cast<FloatType>(typeOf(result).getElementType());
    if (real && !real.isF64())
      for (double &x : types[i].data)
        x = real.isF32() ? static_cast<float>(x) : roundedTo(x, real);
  }
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    known[result] = {std::move(plains[i]), std::move(types[i])};
  return true;
}

template <typename T>
DenseElementsAttr denseOf(RankedTensorType type, const std::vector<double> &data) {
  SmallVector<T, 0> numbers;
  for (double x : data)
    numbers.push_back(static_cast<T>(x));
  return DenseElementsAttr::get(type, ArrayRef<T>(numbers));
}

DenseElementsAttr wholeNumbers(RankedTensorType type, const std::vector<double> &data) {
  if (type.getElementType().isInteger(1))
    return denseOf<bool>(type, data);
  SmallVector<APInt> numbers;
  for (double x : data)
    numbers.push_back(APInt(type.getElementTypeBitWidth(), static_cast<int64_t>(x),
                            /*isSigned=*/true, /*implicitTrunc=*/true));
  return DenseElementsAttr::get(type, numbers);
}

Value Reader::constantFor(Value value) {
  // Takes a constant as it was before it met tensors of a low type: kernels do not round it.
  if (auto cast = value.getDefiningOp<graph::CastOp>();
      cast && isa<FloatType>(typeOf(cast.getOperand()).getElementType()) &&
      isa<FloatType>(typeOf(value).getElementType()) && known.contains(cast.getOperand()))
    return constantFor(cast.getOperand());
  Value &constant = constants[value];
  if (constant)
    return constant;
  const graph::Tensor &plain = known[value].plain;
  graph::Tensor numbers = known[value].typed;
  RankedTensorType type = typeOf(value);
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  DenseElementsAttr dense;
  if (isa<FloatType>(type.getElementType())) {
    double slack = slackOf(type.getElementType());
    for (double &x : numbers.data)
      x = slack > 0 ? meant(x, slack) : x;
    type = RankedTensorType::get(type.getShape(), builder.getF64Type());
    dense = denseOf<double>(type, numbers.data);
  } else {
    dense = wholeNumbers(type, numbers.data);
  }
  auto equal = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  changed |= !std::equal(plain.data.begin(), plain.data.end(), numbers.data.begin(), equal);
  return constant = graph::ConstantOp::create(builder, value.getLoc(), type, dense);
}

// Returns the meant value of an attribute, which is a double but comes from a float32 or a
// product of some.
double meantAttribute(double value) {
  return exactValue(static_cast<float>(value), kFloatSlack, 3 * kFloatSlack);
}

void Reader::mean(Operation *op) {
  if (!isa<graph::GraphOpInterface>(op))
    return;
  for (NamedAttribute attribute : op->getAttrs()) {
    auto real = dyn_cast<FloatAttr>(attribute.getValue());
    if (!real)
      continue;
    double value = real.getValueAsDouble(), exact = meantAttribute(value);
    if (value == exact)
      continue;
    changed = true;
    op->setAttr(attribute.getName(), FloatAttr::get(Float64Type::get(op->getContext()), exact));
  }
}

void Reader::read(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    mean(&op);
    if (compute(&op))
      continue;
    for (OpOperand &operand : op.getOpOperands())
      if (known.contains(operand.get()))
        operand.set(constantFor(operand.get()));
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        read(inner);
  }
}

} // namespace

OwningOpRef<ModuleOp> withExactConstants(ModuleOp module, bool *changed) {
  OwningOpRef<ModuleOp> copy = module.clone();
  Reader reader;
  IRRewriter rewriter(module.getContext());
  for (auto func : copy->getOps<func::FuncOp>())
    if (func.getName() != "update") { // has no constant of a file
      for (Block &block : func.getBody())
        reader.read(block);
      (void)runRegionDCE(rewriter, func->getRegions());
    }
  if (changed)
    *changed = reader.changed;
  return copy;
}

} // namespace llmc::verify
