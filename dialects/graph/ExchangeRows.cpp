// Implements the exchange of rows with the ranks of their experts: what it means in the global program, and
// the order of rows on a rank.
#include "dialects/graph/RoutedRows.h"

using namespace mlir;
using namespace llmc::graph;

static LogicalResult verifyLost(Operation *op, Value lost, Value routes) {
  return verifyShape(op, "C3", "lost", lost, shapeOf(routes).drop_back());
}
static LogicalResult verifyExperts(Operation *op, int64_t experts) {
  if (experts < 1)
    return op->emitOpError("C4: there are ") << experts << " experts, expected at least 1";
  return success();
}
static LogicalResult verifyTokens(Operation *op, Value routes) {
  if (shapeOf(routes).size() < 2)
    return op->emitOpError("C1: routes have shape ")
           << shapeText(shapeOf(routes)) << ", expected tokens and choices as their last dims";
  return success();
}
// Checks slots: the routes' dims but for the last, which is at least as large.
static LogicalResult verifySlots(Operation *op, StringRef rule, StringRef name, Value slots, Value routes) {
  ArrayRef<int64_t> shape = shapeOf(slots), tokens = shapeOf(routes);
  if (shape.size() != tokens.size() || shape.empty() || shape.drop_back() != tokens.drop_back() ||
      shape.back() < tokens.back())
    return op->emitOpError() << rule << ": " << name << " has shape " << shapeText(shape)
                             << ", expected that of the routes, " << shapeText(tokens)
                             << ", with at least as many slots";
  return success();
}

//===-- exchange_routes -----------------------------------------------------===//

LogicalResult ExchangeRoutesOp::verify() {
  if (failed(verifyTokens(*this, getRoutes())) ||
      failed(verifySlots(*this, "C2", "arrived", getArrived(), getRoutes())) ||
      failed(verifyShape(*this, "C2", "sources", getSources(), shapeOf(getArrived()))))
    return failure();
  if (failed(verifyExperts(*this, getExperts())))
    return failure();
  return verifyLost(*this, getLost(), getRoutes());
}
ShardingRule ExchangeRoutesOp::getShardingRule() {
  ShardingRule rule;
  ArrayRef<int64_t> shape = shapeOf(getRoutes());
  TensorFactors tokens = addFactors(rule, shape.drop_back());
  unsigned choices = rule.addFactor(shape.back(), FactorKind::Replicated);
  unsigned slots = rule.addFactor(shapeOf(getArrived()).back(), FactorKind::Replicated);
  rule.operands = {joined(tokens, choices)};
  rule.results = {joined(tokens, slots), joined(tokens, slots), tokens};
  return rule;
}
template <typename T>
static void meaning(ExchangeRoutesOp, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t choices = inputs[0]->shape.back(), slots = outputs[0].shape.back();
  for (int64_t i = 0; i < outputs[0].size(); ++i) {
    bool isSlot = i % slots < choices;
    T route = isSlot ? inputs[0]->data[i / slots * choices + i % slots] : T(-1);
    outputs[0].data[i] = route;
    outputs[1].data[i] = valueOf(route) < 0 ? T(-1) : T(0);
  }
}
LLMC_EVALUATE(ExchangeRoutesOp)
LogicalResult ExchangeRoutesOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                              SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass ExchangeRoutesOp::getEmitClass() { return EmitClass::Special; }

//===-- dispatch, collect ---------------------------------------------------===//

namespace {
// Holds the factors of rows on their way to experts and back: tokens and elements may be cut.
struct ExchangeFactors {
  ShardingRule rule;
  TensorFactors routes, sources;
  unsigned inner;
};
} // namespace

static ExchangeFactors exchangeRule(Value routes, Value sources, Value rows) {
  ExchangeFactors made;
  ArrayRef<int64_t> shape = shapeOf(routes);
  TensorFactors tokens = addFactors(made.rule, shape.drop_back());
  made.routes = joined(tokens, made.rule.addFactor(shape.back(), FactorKind::Replicated));
  made.sources = joined(tokens, made.rule.addFactor(shapeOf(sources).back(), FactorKind::Replicated));
  made.inner = made.rule.addFactor(shapeOf(rows).back());
  made.rule.linearIn = {{0}};
  return made;
}

LogicalResult DispatchOp::verify() {
  if (failed(verifyExperts(*this, getExperts())) ||
      failed(verifySlots(*this, "C1", "sources", getSources(), getRoutes())) ||
      failed(verifyRows(*this, "C2", "the operand", getOperand(), getRoutes(), /*mayShare=*/true)) ||
      failed(verifyShape(*this, "C3", "result", getResult(),
                         with(shapeOf(getSources()), shapeOf(getOperand()).back()))))
    return failure();
  return verifyElement(*this, "C3", getOperand());
}
ShardingRule DispatchOp::getShardingRule() {
  auto [rule, routes, sources, inner] = exchangeRule(getRoutes(), getSources(), getOperand());
  rule.operands = {rowsOf(routes, isShared(), inner), routes, sources};
  rule.results = {joined(sources, inner)};
  return rule;
}
template <typename T>
static void meaning(DispatchOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t choices = inputs[1]->shape.back(), slots = inputs[2]->shape.back(), d = outputs[0].shape.back();
  for (int64_t i = 0; i < inputs[2]->size(); ++i) {
    int64_t token = i / slots, row = op.isShared() ? token : token * choices + i % slots;
    if (i % slots < choices && valueOf(inputs[2]->data[i]) >= 0)
      std::copy_n(inputs[0]->data.begin() + row * d, d, outputs[0].data.begin() + i * d);
  }
}
LLMC_EVALUATE(DispatchOp)
LogicalResult DispatchOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                        SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (!cotangents[0])
    return success();
  Build b(builder, getLoc());
  Value g = CollectOp::create(builder, getLoc(), rowsType(getRoutes(), getOperand()),
                              b.cast(cotangents[0], elementOf(getOperand())), getRoutes(), getSources(),
                              getExperts());
  gradients[0] = cotangentOfRows(b, g, getRoutes(), isShared());
  return success();
}
EmitClass DispatchOp::getEmitClass() { return EmitClass::Movement; }

LogicalResult CollectOp::verify() {
  if (failed(verifyExperts(*this, getExperts())) ||
      failed(verifySlots(*this, "C1", "sources", getSources(), getRoutes())) ||
      failed(verifyShape(*this, "C2", "operand", getOperand(),
                         with(shapeOf(getSources()),
                              shapeOf(getOperand()).empty() ? 0 : shapeOf(getOperand()).back()))) ||
      failed(verifyShape(*this, "C3", "result", getResult(),
                         with(shapeOf(getRoutes()), shapeOf(getOperand()).back()))))
    return failure();
  return verifyElement(*this, "C3", getOperand());
}
ShardingRule CollectOp::getShardingRule() {
  auto [rule, routes, sources, inner] = exchangeRule(getRoutes(), getSources(), getOperand());
  rule.operands = {joined(sources, inner), routes, sources};
  rule.results = {joined(routes, inner)};
  return rule;
}
template <typename T>
static void meaning(CollectOp, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t choices = inputs[1]->shape.back(), slots = inputs[2]->shape.back(), d = outputs[0].shape.back();
  for (int64_t i = 0; i < inputs[2]->size(); ++i)
    if (i % slots < choices && valueOf(inputs[2]->data[i]) >= 0)
      std::copy_n(inputs[0]->data.begin() + i * d, d,
                  outputs[0].data.begin() + (i / slots * choices + i % slots) * d);
}
LLMC_EVALUATE(CollectOp)
LogicalResult CollectOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                       SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (cotangents[0])
    gradients[0] = DispatchOp::create(builder, getLoc(), getOperand().getType(),
                                      Build(builder, getLoc()).cast(cotangents[0], elementOf(getOperand())),
                                      getRoutes(), getSources(), getExperts());
  return success();
}
EmitClass CollectOp::getEmitClass() { return EmitClass::Movement; }

//===-- sort_routes, arrived_routes, count_sources --------------------------===//

LogicalResult SortRoutesOp::verify() {
  if (getPlaces().getType() != getRoutes().getType() || getSorted().getType() != getRoutes().getType())
    return emitOpError("C1: places and sorted are ") << getPlaces().getType() << " and " << getSorted().getType()
                                                     << ", expected " << getRoutes().getType();
  int64_t experts = getExperts();
  ArrayRef<int64_t> counts = shapeOf(getCounts());
  if (counts.size() != 1 || counts[0] < 1 || experts < 1 || experts % counts[0] != 0)
    return emitOpError("C2: counts have shape ") << shapeText(counts) << ", expected one dim that divides "
                                                 << experts << " experts";
  return success();
}
// Returns a rule by which nothing is cut.
static ShardingRule wholeRule(Operation *op) {
  ShardingRule rule;
  for (Value operand : op->getOperands())
    rule.operands.push_back(addFactors(rule, shapeOf(operand), FactorKind::Replicated));
  for (Value result : op->getResults())
    rule.results.push_back(addFactors(rule, shapeOf(result), FactorKind::Replicated));
  return rule;
}
ShardingRule SortRoutesOp::getShardingRule() { return wholeRule(*this); }
template <typename T>
static void meaning(SortRoutesOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t experts = op.getExperts(), parts = outputs[2].shape[0];
  std::vector<int64_t> next(experts + 1, 0);
  auto expertOf = [&](int64_t i) {
    int64_t expert = toInt64(valueOf(inputs[0]->data[i]));
    return expert >= 0 && expert < experts ? expert : -1;
  };
  for (int64_t i = 0; i < inputs[0]->size(); ++i)
    if (int64_t expert = expertOf(i); expert >= 0) {
      ++next[expert + 1];
      T &count = outputs[2].data[expert / (experts / parts)];
      count = count + T(1);
    }
  for (int64_t e = 0; e < experts; ++e)
    next[e + 1] += next[e];
  std::fill(outputs[1].data.begin(), outputs[1].data.end(), T(-1));
  for (int64_t i = 0; i < inputs[0]->size(); ++i) {
    int64_t expert = expertOf(i);
    outputs[0].data[i] = expert < 0 ? T(-1) : T(double(next[expert]));
    if (expert >= 0)
      outputs[1].data[next[expert]++] = inputs[0]->data[i];
  }
}
LLMC_EVALUATE(SortRoutesOp)
LogicalResult SortRoutesOp::differentiate(OpBuilder &, ArrayRef<Value>, SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass SortRoutesOp::getEmitClass() { return EmitClass::Special; }

LogicalResult ArrivedRoutesOp::verify() {
  if (getArrived().getType() != getSorted().getType() || getSources().getType() != getSorted().getType())
    return emitOpError("C1: arrived and sources are ") << getArrived().getType() << " and "
                                                       << getSources().getType() << ", expected "
                                                       << getSorted().getType();
  if (shapeOf(getCounts()).size() != 1)
    return emitOpError("C2: counts have shape ") << shapeText(shapeOf(getCounts())) << ", expected one dim";
  return shapeOf(getSorted()).empty() ? success() : verifyLost(*this, getLost(), getSorted());
}
ShardingRule ArrivedRoutesOp::getShardingRule() { return wholeRule(*this); }
template <typename T>
static void meaning(ArrivedRoutesOp, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t room = inputs[0]->size(), total = 0;
  for (T &x : outputs[0].data)
    x = T(-1);
  for (T &x : outputs[1].data)
    x = T(-1);
  for (int64_t source = 0; source < inputs[1]->size(); ++source)
    for (int64_t i = 0, count = toInt64(valueOf(inputs[1]->data[source])); i < count; ++i, ++total)
      if (total < room) {
        outputs[0].data[total] = inputs[0]->data[total];
        outputs[1].data[total] = T(double(source));
      }
  if (outputs[2].size() > 0)
    outputs[2].data[0] = T(double(std::max<int64_t>(0, total - room)));
}
LLMC_EVALUATE(ArrivedRoutesOp)
LogicalResult ArrivedRoutesOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                             SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass ArrivedRoutesOp::getEmitClass() { return EmitClass::Special; }

LogicalResult CountSourcesOp::verify() {
  if (shapeOf(getCounts()).size() != 1)
    return emitOpError("C1: the result has shape ") << shapeText(shapeOf(getCounts())) << ", expected one dim";
  return success();
}
ShardingRule CountSourcesOp::getShardingRule() { return wholeRule(*this); }
template <typename T>
static void meaning(CountSourcesOp, Inputs<T> inputs, Outputs<T> outputs) {
  for (const T &source : inputs[0]->data)
    if (int64_t i = toInt64(valueOf(source)); i >= 0 && i < outputs[0].size())
      outputs[0].data[i] = outputs[0].data[i] + T(1);
}
LLMC_EVALUATE(CountSourcesOp)
LogicalResult CountSourcesOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                            SmallVectorImpl<Value> &gradients) {
  return noGradient(*this, gradients);
}
EmitClass CountSourcesOp::getEmitClass() { return EmitClass::Special; }

//===-- pack_rows, unpack_rows ----------------------------------------------===//

LogicalResult PackRowsOp::verify() {
  if (failed(verifyRows(*this, "C1", "the operand", getOperand(), getPlaces(), /*mayShare=*/true)) ||
      failed(verifyShape(*this, "C2", "result", getResult(),
                         with(shapeOf(getPlaces()), shapeOf(getOperand()).back()))))
    return failure();
  return verifyElement(*this, "C2", getOperand());
}
// Returns the rule of rows whose elements alone may be cut.
static ShardingRule elementsRule(TensorFactors (*operandOf)(ShardingRule &, Operation *), Operation *op,
                                 Value places) {
  ShardingRule rule;
  TensorFactors rows = addFactors(rule, shapeOf(places), FactorKind::Replicated);
  TensorFactors operand = operandOf(rule, op);
  unsigned inner = rule.addFactor(shapeOf(op->getResult(0)).back());
  rule.linearIn = {{0}};
  rule.operands = {joined(operand, inner), rows};
  rule.results = {joined(rows, inner)};
  return rule;
}
ShardingRule PackRowsOp::getShardingRule() {
  return elementsRule(
      [](ShardingRule &rule, Operation *op) {
        TensorFactors factors;
        size_t dims = shapeOf(op->getOperand(0)).size() - 1;
        for (unsigned i = 0; i < dims; ++i)
          factors.push_back({i});
        return factors;
      },
      *this, getPlaces());
}
template <typename T>
static void meaning(PackRowsOp op, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t d = outputs[0].shape.back(), rows = inputs[1]->size();
  int64_t share = op.isShared() ? inputs[1]->shape.back() : 1;
  for (int64_t i = 0; i < rows; ++i)
    if (int64_t place = toInt64(valueOf(inputs[1]->data[i])); place >= 0 && place < rows)
      std::copy_n(inputs[0]->data.begin() + i / share * d, d, outputs[0].data.begin() + place * d);
}
LLMC_EVALUATE(PackRowsOp)
LogicalResult PackRowsOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                        SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (!cotangents[0])
    return success();
  Build b(builder, getLoc());
  Value g = UnpackRowsOp::create(builder, getLoc(), getResult().getType(),
                                 b.cast(cotangents[0], elementOf(getOperand())), getPlaces());
  gradients[0] = cotangentOfRows(b, g, getPlaces(), isShared());
  return success();
}
EmitClass PackRowsOp::getEmitClass() { return EmitClass::Movement; }

LogicalResult UnpackRowsOp::verify() {
  if (failed(verifyRows(*this, "C1", "the operand", getOperand(), getPlaces(), /*mayShare=*/true)))
    return failure();
  if (shapeOf(getOperand()).size() != shapeOf(getPlaces()).size() + 1)
    return emitOpError("C1: the operand has shape ") << shapeText(shapeOf(getOperand()))
                                                     << ", expected the dim of choices too";
  if (getOperand().getType() != getResult().getType())
    return emitOpError("C2: result type is ") << getResult().getType() << ", expected "
                                              << getOperand().getType() << ", the operand's";
  return success();
}
ShardingRule UnpackRowsOp::getShardingRule() {
  return elementsRule(
      [](ShardingRule &rule, Operation *op) {
        return addFactors(rule, shapeOf(op->getOperand(0)).drop_back(), FactorKind::Replicated);
      },
      *this, getPlaces());
}
template <typename T>
static void meaning(UnpackRowsOp, Inputs<T> inputs, Outputs<T> outputs) {
  int64_t d = outputs[0].shape.back(), rows = inputs[1]->size();
  for (int64_t i = 0; i < rows; ++i)
    if (int64_t place = toInt64(valueOf(inputs[1]->data[i])); place >= 0 && place < rows)
      std::copy_n(inputs[0]->data.begin() + place * d, d, outputs[0].data.begin() + i * d);
}
LLMC_EVALUATE(UnpackRowsOp)
LogicalResult UnpackRowsOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                          SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (cotangents[0])
    gradients[0] = PackRowsOp::create(builder, getLoc(), getOperand().getType(),
                                      Build(builder, getLoc()).cast(cotangents[0], elementOf(getOperand())),
                                      getPlaces());
  return success();
}
EmitClass UnpackRowsOp::getEmitClass() { return EmitClass::Movement; }
