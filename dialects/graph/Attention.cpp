// Attention with the log-sum-exp of each row, and its gradient.
#include "dialects/graph/Detail.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace llmc::graph;

//===-- Verify --------------------------------------------------------------===//

static LogicalResult verifyShape(Operation *op, StringRef name, Value value,
                                 ArrayRef<int64_t> expected) {
  if (shapeOf(value) != expected)
    return op->emitOpError("C1: ") << name << " has shape " << shapeText(shapeOf(value))
                                   << ", expected " << shapeText(expected);
  return success();
}

template <typename Op> static LogicalResult verifyAttention(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK());
  if (q.size() != 4 || k.size() != 4)
    return op.emitOpError("C1: q and k have ranks ")
           << q.size() << " and " << k.size() << ", expected 4: [batch, rows, heads, dim]";
  if (failed(verifyShape(op, "k", op.getK(), {q[0], k[1], k[2], q[3]})) ||
      failed(verifyShape(op, "v", op.getV(), k)) || failed(verifyShape(op, "o", op.getO(), q)) ||
      failed(verifyShape(op, "lse", op.getLse(), q.drop_back())))
    return failure();
  if (k[2] == 0 || q[2] % k[2] != 0)
    return op.emitOpError("C2: ") << q[2] << " heads share " << k[2]
                                  << " kv heads, expected a multiple";
  if (op.getCausal() && q[1] != k[1])
    return op.emitOpError("C3: causal attention has ")
           << q[1] << " rows and " << k[1] << " keys, expected as many";
  return success();
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }
LogicalResult AttentionGradOp::verify() {
  if (failed(verifyAttention(*this)) ||
      failed(verifyShape(*this, "cotangent", getCotangent(), shapeOf(getQ()))) ||
      failed(verifyShape(*this, "dq", getDq(), shapeOf(getQ()))) ||
      failed(verifyShape(*this, "dk", getDk(), shapeOf(getK()))) ||
      failed(verifyShape(*this, "dv", getDv(), shapeOf(getV()))))
    return failure();
  return success();
}

//===-- Sharding, cost ------------------------------------------------------===//

namespace {
struct AttentionFactors {
  TensorFactors q, kv, lse;
};
} // namespace

// Grouped heads are two factors: kv heads (major) on q, k and v; the members
// of a group on q alone, so cutting those leaves partial dk and dv.
static AttentionFactors attentionFactors(ShardingRule &rule, Value q, Value k,
                                         FactorKind groupKind) {
  ArrayRef<int64_t> shape = shapeOf(q);
  int64_t kvHeads = shapeOf(k)[2], group = shape[2] / kvHeads;
  DimFactors batch{rule.addFactor(shape[0])}, heads, sharedHeads;
  if (kvHeads > 1 || group == 1)
    sharedHeads.push_back(rule.addFactor(kvHeads));
  heads = sharedHeads;
  if (group > 1)
    heads.push_back(rule.addFactor(group, groupKind));
  DimFactors rows{rule.addFactor(shape[1], FactorKind::Replicated)};
  DimFactors keys{rule.addFactor(shapeOf(k)[1], FactorKind::Replicated)};
  DimFactors dim{rule.addFactor(shape[3], FactorKind::Replicated)};
  return {{batch, rows, heads, dim}, {batch, keys, sharedHeads, dim}, {batch, rows, heads}};
}

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule;
  AttentionFactors f = attentionFactors(rule, getQ(), getK(), FactorKind::Parallel);
  rule.operands = {f.q, f.kv, f.kv};
  rule.results = {f.q, f.lse};
  return rule;
}
ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule;
  AttentionFactors f = attentionFactors(rule, getQ(), getK(), FactorKind::ReducedSum);
  rule.operands = {f.q, f.q, f.kv, f.kv, f.q, f.lse};
  rule.results = {f.q, f.kv, f.kv};
  return rule;
}

// FLOPs of `matmuls` products over the (row, key) pairs that are looked at.
static double pairFlops(Value q, Value k, bool causal, int matmuls) {
  ArrayRef<int64_t> shape = shapeOf(q);
  double rows = shape[1], keys = shapeOf(k)[1];
  double pairs = causal ? rows * (rows + 1) / 2 : rows * keys;
  return 2.0 * matmuls * shape[0] * shape[2] * shape[3] * pairs;
}
double AttentionOp::getFlops() { return pairFlops(getQ(), getK(), getCausal(), 2); }
double AttentionGradOp::getFlops() { return pairFlops(getQ(), getK(), getCausal(), 5); }
EmitClass AttentionOp::getEmitClass() { return EmitClass::Special; }
EmitClass AttentionGradOp::getEmitClass() { return EmitClass::Special; }

//===-- Evaluate ------------------------------------------------------------===//

namespace {
// Positions of one row's vectors in [batch, rows or keys, heads or kv heads, dim].
struct Layout {
  int64_t batch, rows, heads, dim, keys, kvHeads;
  bool causal;

  Layout(const Tensor &q, const Tensor &k, bool causal)
      : batch(q.shape[0]), rows(q.shape[1]), heads(q.shape[2]), dim(q.shape[3]),
        keys(k.shape[1]), kvHeads(k.shape[2]), causal(causal) {}
  int64_t statistic(int64_t b, int64_t row, int64_t head) const {
    return (b * rows + row) * heads + head;
  }
  int64_t q(int64_t b, int64_t row, int64_t head) const { return statistic(b, row, head) * dim; }
  int64_t k(int64_t b, int64_t key, int64_t head) const {
    return ((b * keys + key) * kvHeads + head / (heads / kvHeads)) * dim;
  }
  int64_t seen(int64_t row) const { return causal ? row + 1 : keys; }

  template <typename Body> void forEachRow(Body body) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t row = 0; row < rows; ++row)
          body(b, head, row);
  }
};
} // namespace

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}
static void addScaled(double *to, const double *from, double factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i] += factor * from[i];
}

void AttentionOp::evaluate(Inputs inputs, Outputs outputs) {
  const Tensor &q = *inputs[0], &k = *inputs[1], &v = *inputs[2];
  Layout at(q, k, getCausal());
  double scale = getScale().convertToDouble();
  std::vector<double> scores(at.keys);
  at.forEachRow([&](int64_t b, int64_t head, int64_t row) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t key = 0; key < at.seen(row); ++key) {
      scores[key] = scale * dot(&q.data[at.q(b, row, head)], &k.data[at.k(b, key, head)], at.dim);
      largest = std::max(largest, scores[key]);
    }
    for (int64_t key = 0; key < at.seen(row); ++key)
      sum += scores[key] = std::exp(scores[key] - largest);
    double *o = &outputs[0].data[at.q(b, row, head)];
    for (int64_t key = 0; key < at.seen(row); ++key)
      addScaled(o, &v.data[at.k(b, key, head)], scores[key] / sum, at.dim);
    outputs[1].data[at.statistic(b, row, head)] = largest + std::log(sum);
  });
}

void AttentionGradOp::evaluate(Inputs inputs, Outputs outputs) {
  const Tensor &g = *inputs[0], &q = *inputs[1], &k = *inputs[2], &v = *inputs[3],
               &o = *inputs[4], &lse = *inputs[5];
  Layout at(q, k, getCausal());
  double scale = getScale().convertToDouble();
  at.forEachRow([&](int64_t b, int64_t head, int64_t row) {
    int64_t i = at.q(b, row, head);
    double delta = dot(&g.data[i], &o.data[i], at.dim);
    for (int64_t key = 0; key < at.seen(row); ++key) {
      int64_t j = at.k(b, key, head);
      double p = std::exp(scale * dot(&q.data[i], &k.data[j], at.dim) -
                          lse.data[at.statistic(b, row, head)]);
      double slope = scale * p * (dot(&g.data[i], &v.data[j], at.dim) - delta);
      addScaled(&outputs[0].data[i], &k.data[j], slope, at.dim);
      addScaled(&outputs[1].data[j], &q.data[i], slope, at.dim);
      addScaled(&outputs[2].data[j], &g.data[i], p, at.dim);
    }
  });
}

//===-- Gradient ------------------------------------------------------------===//

LogicalResult AttentionOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         SmallVectorImpl<Value> &gradients) {
  if (cotangents[1])
    return failure(); // lse serves the gradient only
  gradients.assign(3, Value());
  if (!cotangents[0])
    return success();
  auto op = AttentionGradOp::create(
      builder, getLoc(), TypeRange{getQ().getType(), getK().getType(), getV().getType()},
      cotangents[0], getQ(), getK(), getV(), getO(), getLse(), getScaleAttr(), getCausalAttr());
  llvm::copy(op.getResults(), gradients.begin());
  return success();
}
LogicalResult AttentionGradOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                             SmallVectorImpl<Value> &) {
  return failure();
}
