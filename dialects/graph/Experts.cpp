// Implements routes and the products of routed rows.
#include "dialects/graph/Product.h"
#include "dialects/graph/RoutedRows.h"

using namespace mlir;
using namespace llmc::graph;

LogicalResult llmc::graph::verifyRows(Operation *op, StringRef rule, StringRef name, Value rows, Value routes,
                                      bool mayShare) {
  ArrayRef<int64_t> shape = shapeOf(rows), tokens = shapeOf(routes);
  bool fits = !tokens.empty() && !shape.empty() &&
              (shape.drop_back() == tokens || (mayShare && shape.drop_back() == tokens.drop_back()));
  if (!fits)
    return op->emitOpError() << rule << ": " << name << " has shape " << shapeText(shape) << ", expected "
                             << shapeText(tokens) << (mayShare ? ", or that without its last dim," : "")
                             << " and one more dim";
  return success();
}

template <typename T> static bool isUnsure(T) { return false; }
static bool isUnsure(Bounded x) { return x.error != 0; }
template <typename T> static bool isUndecided(T, T) { return false; }
static bool isUndecided(Bounded x, Bounded y) { return undecided(x, y); }
template <typename T> static T unsure(T x) { return x; }
static Bounded unsure(Bounded x) { return {x.value, double(INFINITY)}; }

//===-- route ---------------------------------------------------------------===//

LogicalResult RouteOp::verify() {
  ArrayRef<int64_t> scores = shapeOf(getScores()), routes = shapeOf(getRoutes());
  int64_t groups = getGroups(), kept = getKeptGroups(), terms = getGroupTerms();
  if (groups < 1 || kept < 1 || terms < 1 || kept > groups)
    return emitOpError("C4: keeps ") << kept << " of " << groups << " groups by " << terms
                                     << " scores, expected at least 1 of each and no more kept than there are";
  if (scores.empty() || scores.back() % groups != 0)
    return emitOpError("C1: scores have shape ") << shapeText(scores) << ", expected a last dim that "
                                                 << groups << " groups share";
  int64_t inGroup = scores.back() / groups;
  if (routes.size() != scores.size() || routes.drop_back() != scores.drop_back() || routes.back() < 1 ||
      routes.back() > kept * inGroup)
    return emitOpError("C2: routes have shape ") << shapeText(routes) << ", expected that of the scores "
                                                 << shapeText(scores) << " with 1 to " << kept * inGroup
                                                 << " as its last dim";
  if (getBias() && failed(verifyShape(*this, "C3", "bias", getBias(), {scores.back()})))
    return failure();
  if (terms > inGroup)
    return emitOpError("C5: groups are chosen by ") << terms << " scores and have " << inGroup << " experts";
  return success();
}
ShardingRule RouteOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors tokens = addFactors(rule, shapeOf(getScores()).drop_back());
  unsigned experts = rule.addFactor(shapeOf(getScores()).back(), FactorKind::Replicated);
  unsigned choices = rule.addFactor(shapeOf(getRoutes()).back(), FactorKind::Replicated);
  rule.operands = {joined(tokens, experts)};
  if (getBias())
    rule.operands.push_back({{experts}});
  rule.results = {joined(tokens, choices)};
  return rule;
}

namespace {
// Picks the largest of some scores, one after the other.
template <typename T> class Picker {
public:
  explicit Picker(std::vector<T> scores) : scores(std::move(scores)), isOpen(this->scores.size(), true) {}

  void close(size_t from, size_t to) { std::fill(isOpen.begin() + from, isOpen.begin() + to, false); }
  // Returns the best that is left, and takes it.
  size_t take() {
    size_t best = scores.size();
    for (size_t i = 0; i < scores.size(); ++i)
      if (isOpen[i] && (best == scores.size() || isBetter(i, best)))
        best = i;
    for (size_t i = 0; i < scores.size(); ++i)
      isSure &= i == best || !isOpen[i] || !isUndecided(scores[i], scores[best]);
    isOpen[best] = false;
    return best;
  }
  T operator[](size_t i) const { return scores[i]; }

  bool isSure = true; // no rounding could have changed what was taken

private:
  bool isBetter(size_t i, size_t than) const {
    double x = valueOf(scores[i]), y = valueOf(scores[than]);
    return x > y || (y != y && x == x);
  }
  std::vector<T> scores;
  std::vector<bool> isOpen;
};
} // namespace

template <typename T>
static void meaning(RouteOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t experts = inputs[0]->shape.back(), choices = outputs[0].shape.back();
  int64_t groups = op.getGroups(), inGroup = experts / groups;
  for (int64_t row = 0; row * experts < inputs[0]->size(); ++row) {
    std::vector<T> scores(inputs[0]->data.begin() + row * experts,
                          inputs[0]->data.begin() + (row + 1) * experts);
    for (int64_t e = 0; op.getBias() && e < experts; ++e)
      scores[e] = scores[e] + inputs[1]->data[e];
    Picker<T> all(scores);
    if (groups > 1) {
      std::vector<T> sums;
      for (int64_t g = 0; g < groups; ++g) {
        Picker<T> group(std::vector<T>(scores.begin() + g * inGroup, scores.begin() + (g + 1) * inGroup));
        T sum = 0;
        for (int64_t i = 0; i < int64_t(op.getGroupTerms()); ++i)
          sum = sum + group[group.take()];
        sums.push_back(sum);
      }
      Picker<T> best(sums);
      std::vector<bool> isKept(groups, false);
      for (int64_t i = 0; i < int64_t(op.getKeptGroups()); ++i)
        isKept[best.take()] = true;
      all.isSure = best.isSure;
      for (int64_t g = 0; g < groups; ++g)
        if (!isKept[g])
          all.close(g * inGroup, (g + 1) * inGroup);
    }
    T *out = outputs[0].data.data() + row * choices;
    for (int64_t c = 0; c < choices; ++c)
      out[c] = double(all.take());
    for (int64_t c = 0; c < choices && !all.isSure; ++c)
      out[c] = unsure(out[c]);
  }
}
LLMC_EVALUATE(RouteOp)
LogicalResult RouteOp::differentiate(OpBuilder &, ArrayRef<Value>, SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass RouteOp::getEmitClass() { return EmitClass::Special; }
PrecisionRule RouteOp::getPrecisionRule() { return {{Precision::Full, Precision::Full}, {}}; }

//===-- limit_routes --------------------------------------------------------===//

LogicalResult LimitRoutesOp::verify() {
  if (shapeOf(getRoutes()).size() < 2)
    return emitOpError("C1: routes have shape ") << shapeText(shapeOf(getRoutes()))
                                                 << ", expected tokens and choices as their last dims";
  if (static_cast<int64_t>(getCapacity()) < 1 || static_cast<int64_t>(getExperts()) < 1)
    return emitOpError("C2: the capacity is ") << static_cast<int64_t>(getCapacity()) << " of "
                                               << static_cast<int64_t>(getExperts())
                                               << " experts, expected at least 1 of each";
  if (getRoutes().getType() != getResult().getType())
    return emitOpError("C3: result type is ") << getResult().getType() << ", expected "
                                              << getRoutes().getType() << ", the operand's";
  return success();
}
ShardingRule LimitRoutesOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors factors = addFactors(rule, shapeOf(getRoutes()).drop_back(2));
  for (int64_t size : shapeOf(getRoutes()).take_back(2))
    factors.push_back({rule.addFactor(size, FactorKind::Replicated)});
  rule.operands = {factors};
  rule.results = {factors};
  return rule;
}
template <typename T>
static void meaning(LimitRoutesOp op, Inputs<T> inputs, Outputs<T> outputs) {
  ArrayRef<int64_t> shape = outputs[0].shape;
  int64_t size = shape[shape.size() - 2] * shape.back(), experts = op.getExperts();
  for (int64_t start = 0; start < outputs[0].size(); start += size) {
    std::vector<int64_t> taken(experts, 0);
    bool isSure = true;
    for (int64_t i = start; i < start + size; ++i) {
      T route = inputs[0]->data[i];
      isSure &= !isUnsure(route);
      int64_t expert = toInt64(valueOf(route));
      bool isLate = expert >= 0 && expert < experts && taken[expert]++ >= int64_t(op.getCapacity());
      outputs[0].data[i] = isLate ? T(-1) : route;
    }
    for (int64_t i = start; i < start + size && !isSure; ++i)
      outputs[0].data[i] = unsure(outputs[0].data[i]);
  }
}
LLMC_EVALUATE(LimitRoutesOp)
LogicalResult LimitRoutesOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                           SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass LimitRoutesOp::getEmitClass() { return EmitClass::Special; }

//===-- grouped products ----------------------------------------------------===//

namespace {
// Holds the rows that are routed to each expert, in order.
template <typename T> struct Groups {
  std::vector<std::vector<int64_t>> rows;
  bool isSure = true;

  Groups(const TensorOf<T> &routes, int64_t experts, int64_t offset) : rows(experts) {
    for (int64_t i = 0; i < routes.size(); ++i) {
      isSure &= !isUnsure(routes.data[i]);
      int64_t expert = toInt64(valueOf(routes.data[i]) - static_cast<double>(offset));
      if (expert >= 0 && expert < experts)
        rows[expert].push_back(i);
    }
  }
};
} // namespace

// Returns the rows of `tensor` with these numbers one behind the other; `share` of them are one row.
template <typename T>
static std::vector<T> gathered(const TensorOf<T> &tensor, ArrayRef<int64_t> rows, int64_t share) {
  int64_t width = tensor.shape.back();
  std::vector<T> result;
  result.reserve(rows.size() * width);
  for (int64_t row : rows)
    result.insert(result.end(), tensor.data.begin() + row / share * width,
                  tensor.data.begin() + (row / share + 1) * width);
  return result;
}
template <typename T>
static std::vector<T> transposed(const std::vector<T> &x, int64_t rows, int64_t columns) {
  std::vector<T> y(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      y[j * rows + i] = x[i * columns + j];
  return y;
}

LogicalResult GroupedMatmulOp::verify() {
  ArrayRef<int64_t> weights = shapeOf(getWeights());
  if (weights.size() != 3)
    return emitOpError("C1: weights have shape ") << shapeText(weights) << ", expected experts and a matrix";
  if (failed(verifyRows(*this, "C2", "operand", getOperand(), getRoutes(), /*mayShare=*/true)))
    return failure();
  if (int64_t d = weights[getTransposed() ? 2 : 1]; shapeOf(getOperand()).back() != d)
    return emitOpError("C2: operand rows have ") << shapeOf(getOperand()).back() << " elements, expected " << d;
  if (failed(verifyShape(*this, "C3", "result", getResult(),
                         with(shapeOf(getRoutes()), weights[getTransposed() ? 1 : 2]))))
    return failure();
  if (elementOf(getOperand()) != elementOf(getWeights()))
    return emitOpError("C4: operand and weights have element types ")
           << elementOf(getOperand()) << " and " << elementOf(getWeights()) << ", expected one";
  return success();
}
ShardingRule GroupedMatmulOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}, {1}};
  TensorFactors tokens = addFactors(rule, shapeOf(getRoutes()));
  ArrayRef<int64_t> weights = shapeOf(getWeights());
  unsigned experts = rule.addFactor(weights[0], getExchanged() ? FactorKind::Owned : FactorKind::ReducedSum);
  unsigned terms = rule.addFactor(shapeOf(getOperand()).back(), FactorKind::ReducedSum);
  unsigned columns = rule.addFactor(shapeOf(getResult()).back());
  TensorFactors matrix = getTransposed() ? TensorFactors{{experts}, {columns}, {terms}}
                                         : TensorFactors{{experts}, {terms}, {columns}};
  rule.operands = {rowsOf(tokens, isShared(), terms), matrix, tokens};
  if (getOffset())
    rule.operands.emplace_back();
  rule.results = {joined(tokens, columns)};
  rule.offsetFactor = experts;
  return rule;
}
double GroupedMatmulOp::getFlops() {
  return 2.0 * getResult().getType().getNumElements() * shapeOf(getOperand()).back();
}
EmitClass GroupedMatmulOp::getEmitClass() { return EmitClass::Matmul; }
PrecisionRule GroupedMatmulOp::getPrecisionRule() {
  return {{Precision::Low, Precision::Low}, {Precision::Low}};
}
template <typename T>
static void meaning(GroupedMatmulOp op, Inputs<T> inputs, Outputs<T> outputs) {
  const TensorOf<T> &x = *inputs[0], &w = *inputs[1], &routes = *inputs[2];
  int64_t d = x.shape.back(), f = outputs[0].shape.back();
  Groups<T> groups(routes, w.shape[0], offsetOf(inputs, 3));
  int64_t share = op.isShared() && !routes.shape.empty() ? routes.shape.back() : 1;
  for (auto [expert, rows] : llvm::enumerate(groups.rows)) {
    std::vector<T> matrix(w.data.begin() + expert * d * f, w.data.begin() + (expert + 1) * d * f);
    if (rows.empty())
      continue;
    if (op.getTransposed())
      matrix = transposed(matrix, f, d);
    std::vector<T> y = product(gathered(x, rows, share), matrix, {1, int64_t(rows.size()), d, f});
    for (auto [i, row] : llvm::enumerate(rows))
      std::copy_n(y.begin() + i * f, f, outputs[0].data.begin() + row * f);
  }
  for (T &y : outputs[0].data)
    y = groups.isSure ? y : unsure(y);
}
LLMC_EVALUATE(GroupedMatmulOp)
LogicalResult GroupedMatmulOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                             SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (!cotangents[0])
    return success();
  Build b(builder, getLoc());
  Value g = b.cast(cotangents[0], elementOf(getOperand()));
  Value dx = GroupedMatmulOp::create(builder, getLoc(), rowsType(getRoutes(), getOperand()), g, getWeights(),
                                     getRoutes(), getOffset(), !getTransposed(), getExchanged());
  gradients[0] = cotangentOfRows(b, dx, getRoutes(), isShared());
  Value lhs = getTransposed() ? g : getOperand(), rhs = getTransposed() ? getOperand() : g;
  gradients[1] = GroupedOuterOp::create(builder, getLoc(), getWeights().getType(), lhs, rhs, getRoutes(),
                                        getOffset(), getExchanged());
  return success();
}

LogicalResult GroupedOuterOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getResult());
  if (shape.size() != 3)
    return emitOpError("C1: the result has shape ") << shapeText(shape) << ", expected experts and a matrix";
  for (auto [name, value, size, other] : {std::tuple("lhs", Value(getLhs()), shape[1], Value(getRhs())),
                                          {"rhs", Value(getRhs()), shape[2], Value(getLhs())}}) {
    bool mayShare = shapeOf(other).size() != shapeOf(getRoutes()).size();
    if (failed(verifyRows(*this, "C2", name, value, getRoutes(), mayShare)))
      return failure();
    if (shapeOf(value).back() != size)
      return emitOpError("C2: rows of ") << name << " have " << shapeOf(value).back()
                                         << " elements, expected " << size;
  }
  if (elementOf(getLhs()) != elementOf(getRhs()))
    return emitOpError("C3: operands have element types ")
           << elementOf(getLhs()) << " and " << elementOf(getRhs()) << ", expected one";
  return success();
}
ShardingRule GroupedOuterOp::getShardingRule() {
  ShardingRule rule;
  rule.linearIn = {{0}, {1}};
  TensorFactors tokens = addFactors(rule, shapeOf(getRoutes()), FactorKind::ReducedSum);
  ArrayRef<int64_t> shape = shapeOf(getResult());
  unsigned experts = rule.addFactor(shape[0], getExchanged() ? FactorKind::Owned : FactorKind::Parallel);
  unsigned m = rule.addFactor(shape[1]), n = rule.addFactor(shape[2]);
  rule.operands = {rowsOf(tokens, isShared(0), m), rowsOf(tokens, isShared(1), n), tokens};
  if (getOffset())
    rule.operands.emplace_back();
  rule.results = {{{experts}, {m}, {n}}};
  rule.offsetFactor = experts;
  return rule;
}
double GroupedOuterOp::getFlops() {
  return 2.0 * getRoutes().getType().getNumElements() * shapeOf(getResult())[1] * shapeOf(getResult())[2];
}
EmitClass GroupedOuterOp::getEmitClass() { return EmitClass::Matmul; }
template <typename T>
static void meaning(GroupedOuterOp op, Inputs<T> inputs, Outputs<T> outputs) {
  const TensorOf<T> &routes = *inputs[2];
  int64_t m = outputs[0].shape[1], n = outputs[0].shape[2];
  Groups<T> groups(routes, outputs[0].shape[0], offsetOf(inputs, 3));
  auto shareOf = [&](unsigned i) {
    return op.isShared(i) && !routes.shape.empty() ? routes.shape.back() : int64_t(1);
  };
  for (auto [expert, rows] : llvm::enumerate(groups.rows)) {
    int64_t count = rows.size();
    if (count == 0)
      continue;
    std::vector<T> x = transposed(gathered(*inputs[0], rows, shareOf(0)), count, m);
    std::vector<T> z = product(x, gathered(*inputs[1], rows, shareOf(1)), {1, m, count, n});
    llvm::copy(z, outputs[0].data.begin() + expert * m * n);
  }
  for (T &y : outputs[0].data)
    y = groups.isSure ? y : unsure(y);
}
LLMC_EVALUATE(GroupedOuterOp)
LogicalResult GroupedOuterOp::differentiate(OpBuilder &, ArrayRef<Value>, SmallVectorImpl<Value> &) {
  return failure();
}
