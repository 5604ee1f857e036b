// Implements attention with the log-sum-exp of each row, and its gradient.
#include "dialects/graph/Detail.h"
#include "lib/support/Dropout.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace llmc::graph;

//===-- Verify --------------------------------------------------------------===//

// Checks C3.
template <typename Op> static LogicalResult verifyVisibility(Op op) {
  int64_t offset = op.getOffset();
  if (offset < 0)
    return op.emitOpError("C3: offset is ") << offset << ", expected 0 or more";
  if (std::optional<int64_t> window = op.getWindow()) {
    if (*window < 1)
      return op.emitOpError("C3: window is ") << *window << ", expected 1 or more";
    if (!op.getCausal())
      return op.emitOpError("C3: a window is given without causal, expected causal; write other "
                            "windows as a mask");
  }
  double softcap = op.getSoftcap().convertToDouble();
  if (!(softcap >= 0) || std::isinf(softcap))
    return op.emitOpError("C3: softcap is ") << softcap << ", expected 0 (none) or more";
  return success();
}

// Checks C4 and C5.
template <typename Op> static LogicalResult verifyMask(Op op, Value mask) {
  if (!mask)
    return success();
  ArrayRef<int64_t> q = shapeOf(op.getQ()), shape = shapeOf(mask);
  int64_t keys = shapeOf(op.getK())[1];
  auto isOr1 = [](int64_t got, int64_t size) { return got == size || got == 1; };
  if (shape.size() != 4 || !isOr1(shape[0], q[0]) || !isOr1(shape[1], q[2]) ||
      !isOr1(shape[2], q[1]) || shape[3] != keys)
    return op.emitOpError("C4: mask has shape ")
           << shapeText(shape) << ", expected " << shapeText({q[0], q[2], q[1], keys})
           << ", of which all but the last may be 1";
  if (!isFloat(mask) && !elementOf(mask).isInteger(1))
    return op.emitOpError("C5: mask has element type ")
           << elementOf(mask) << ", expected i1 or a float; compare or cast it";
  return success();
}

// Checks C6.
template <typename Op> static LogicalResult verifyDropout(Op op) {
  double rate = op.getDropout().convertToDouble();
  int64_t place = op.getPlace();
  if (!(rate >= 0 && rate < 1) || place < 0 || place > std::numeric_limits<uint32_t>::max())
    return op.emitOpError("C6: dropout is ")
           << rate << " at place " << place
           << ", expected a rate of 0 or more and less than 1, and a place of 0 or more and less than 2^32";
  OperandRange draws = op.getDraws();
  ArrayRef<int64_t> q = shapeOf(op.getQ());
  const SmallVector<int64_t> shapes[] = {{q[0]}, {}, {q[1]}, {q[2]}, {shapeOf(op.getK())[1]}};
  size_t expected = rate > 0 ? std::size(shapes) : 0;
  if (draws.size() != expected)
    return op.emitOpError("C6: dropout of rate ")
           << rate << " has " << draws.size() << " draws, expected " << expected;
  for (auto [i, draw] : llvm::enumerate(draws))
    if (shapeOf(draw) != ArrayRef(shapes[i]) || !elementOf(draw).isInteger(64))
      return op.emitOpError("C6: draw ") << i << " has type " << draw.getType() << ", expected i64 of shape "
                                         << shapeText(shapes[i]);
  return success();
}

// Checks C7 and C8.
template <typename Op> static LogicalResult verifyPositions(Op op) {
  int64_t rows = shapeOf(op.getQ())[1], keys = shapeOf(op.getK())[1];
  const int64_t sizes[] = {rows, keys};
  for (auto [position, size] : llvm::zip(op.getPositions(), sizes))
    if (shapeOf(position) != ArrayRef(size) || !elementOf(position).isInteger(64))
      return op.emitOpError("C7: positions have type ") << position.getType() << ", expected i64 of shape " << shapeText(size);
  if (!op.getPositions().empty() && !op.getCausal())
    return op.emitOpError("C7: positions are given without causal, which alone reads them; leave them out");
  if (!op.getRing())
    return success();
  if (rows != keys)
    return op.emitOpError("C8: a ring has as many keys as rows, got ") << keys << " and " << rows;
  if (op.getMask() && shapeOf(op.getMask())[2] != 1)
    return op.emitOpError("C8: a ring has a mask of keys alone, got one of ") << shapeOf(op.getMask())[2] << " rows";
  if (op.getCausal() && op.getPositions().empty())
    return op.emitOpError("C8: a causal ring has no positions of its rows and keys");
  return success();
}

template <typename Op> static LogicalResult verifyAttention(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK());
  if (q.size() != 4 || k.size() != 4)
    return op.emitOpError("C1: q and k have ranks ")
           << q.size() << " and " << k.size() << ", expected 4: [batch, rows, heads, dim]";
  if (failed(verifyShape(op, "C1", "k", op.getK(), {q[0], k[1], k[2], q[3]})) ||
      failed(verifyShape(op, "C1", "v", op.getV(), k)) || failed(verifyShape(op, "C1", "o", op.getO(), q)) ||
      failed(verifyShape(op, "C1", "lse", op.getLse(), q.drop_back())))
    return failure();
  if (k[2] == 0 || q[2] % k[2] != 0)
    return op.emitOpError("C2: ") << q[2] << " heads share " << k[2]
                                  << " kv heads, expected a multiple";
  if (failed(verifyVisibility(op)) || failed(verifyDropout(op)) || failed(verifyMask(op, op.getMask())))
    return failure();
  return verifyPositions(op);
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }
LogicalResult AttentionGradOp::verify() {
  if (failed(verifyAttention(*this)) ||
      failed(verifyShape(*this, "C1", "cotangent", getCotangent(), shapeOf(getQ()))) ||
      failed(verifyShape(*this, "C1", "dq", getDq(), shapeOf(getQ()))) ||
      failed(verifyShape(*this, "C1", "dk", getDk(), shapeOf(getK()))) ||
      failed(verifyShape(*this, "C1", "dv", getDv(), shapeOf(getV()))))
    return failure();
  return success();
}

void AttentionOp::build(OpBuilder &builder, OperationState &state, TypeRange types, Value q,
                        Value k, Value v, APFloat scale, bool causal, Value mask, int64_t offset,
                        std::optional<int64_t> window, double softcap) {
  build(builder, state, types, q, k, v, mask ? ValueRange(mask) : ValueRange(),
        builder.getF64FloatAttr(scale.convertToDouble()), builder.getBoolAttr(causal),
        builder.getI64IntegerAttr(offset), window ? builder.getI64IntegerAttr(*window) : IntegerAttr(),
        builder.getF64FloatAttr(softcap), /*dropout=*/builder.getF64FloatAttr(0),
        /*place=*/builder.getI64IntegerAttr(0), /*ring=*/UnitAttr());
}

bool llmc::graph::isRing(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getRing();
  auto grad = dyn_cast<AttentionGradOp>(op);
  return grad && grad.getRing();
}

//===-- Sharding, cost ------------------------------------------------------===//

namespace {
struct AttentionFactors {
  TensorFactors q, kv, lse;
  SmallVector<TensorFactors, 8> further; // of the mask, the positions and the draws
};
} // namespace

// Adds the factors of an attention to `rule` and returns them by tensor. Grouped heads are two
// factors: kv heads (major) on q, k and v; the members of a group on q alone, so that cutting those
// leaves partial dk and dv.
template <typename Op>
static AttentionFactors attentionFactors(ShardingRule &rule, Op op, FactorKind groupKind) {
  Value k = op.getK();
  ArrayRef<int64_t> shape = shapeOf(op.getQ());
  int64_t kvHeads = shapeOf(k)[2], group = shape[2] / kvHeads;
  DimFactors batch{rule.addFactor(shape[0])}, heads, sharedHeads;
  if (kvHeads > 1 || group == 1)
    sharedHeads.push_back(rule.addFactor(kvHeads));
  heads = sharedHeads;
  if (group > 1)
    heads.push_back(rule.addFactor(group, groupKind));
  DimFactors rows{rule.addFactor(shape[1], op.getRing() ? FactorKind::Parallel : FactorKind::Replicated)};
  DimFactors keys = rows;
  if (!op.getRing())
    keys = {rule.addFactor(shapeOf(k)[1], FactorKind::Replicated)};
  DimFactors dim{rule.addFactor(shape[3], FactorKind::Replicated)};
  AttentionFactors all{
      {batch, rows, heads, dim}, {batch, keys, sharedHeads, dim}, {batch, rows, heads}, {}};
  const DimFactors dims[] = {batch, heads, rows, keys};
  if (Value mask = op.getMask())
    for (TensorFactors &own = all.further.emplace_back(); auto [size, factors] : llvm::zip(shapeOf(mask), dims))
      own.push_back(size == 1 ? DimFactors() : factors);
  if (!op.getPositions().empty())
    all.further.append({{rows}, {keys}});
  if (!op.getDraws().empty())
    all.further.append({{batch}, {}, {rows}, {heads}, {keys}});
  return all;
}

ShardingRule AttentionOp::getShardingRule() {
  ShardingRule rule;
  AttentionFactors f = attentionFactors(rule, *this, FactorKind::Parallel);
  rule.operands = {f.q, f.kv, f.kv};
  llvm::append_range(rule.operands, f.further);
  rule.results = {f.q, f.lse};
  return rule;
}
PrecisionRule AttentionOp::getPrecisionRule() {
  return {{Precision::Low, Precision::Low, Precision::Low, Precision::Given},
          {Precision::Low, Precision::Full}};
}
ShardingRule AttentionGradOp::getShardingRule() {
  ShardingRule rule;
  AttentionFactors f = attentionFactors(rule, *this, FactorKind::ReducedSum);
  rule.operands = {f.q, f.q, f.kv, f.kv, f.q, f.lse};
  llvm::append_range(rule.operands, f.further);
  rule.results = {f.q, f.kv, f.kv};
  return rule;
}

namespace {
// Bounds the keys that a row can see before any mask: [first, last). With positions it can see any, of
// which sees() tells those that it does.
struct Visibility {
  bool causal;
  int64_t offset, window, keys; // window 0: none

  template <typename Op> static Visibility of(Op op) {
    bool positions = !op.getPositions().empty();
    return {op.getCausal() && !positions, static_cast<int64_t>(op.getOffset()),
            positions ? 0 : static_cast<int64_t>(op.getWindow().value_or(0)), shapeOf(op.getK())[1]};
  }
  int64_t first(int64_t row) const {
    return window ? std::min(std::max<int64_t>(row + offset - window + 1, 0), keys) : 0;
  }
  // Returns one past the last key; 0 where all keys are later than the row.
  int64_t last(int64_t row) const {
    return causal ? std::clamp<int64_t>(row + offset + 1, 0, keys) : keys;
  }
};
} // namespace

// Returns the sum of clamp(row + shift, 0, most) over `rows` rows, in no time for rows of any length.
static double sumOfClamped(int64_t shift, int64_t rows, int64_t most) {
  int64_t begin = std::clamp<int64_t>(-shift, 0, rows), end = std::clamp<int64_t>(most - shift, begin, rows);
  double first = static_cast<double>(begin + shift), last = static_cast<double>(end - 1 + shift);
  double count = static_cast<double>(end - begin);
  return count * (first + last) / 2 + static_cast<double>(rows - end) * static_cast<double>(most);
}

// Returns the FLOPs of `matmuls` products over the (row, key) pairs that causal and window leave.
template <typename Op> static double pairFlops(Op op, int matmuls) {
  ArrayRef<int64_t> shape = shapeOf(op.getQ());
  Visibility sees = Visibility::of(op);
  double pairs = sees.causal ? sumOfClamped(sees.offset + 1, shape[1], sees.keys)
                             : static_cast<double>(shape[1]) * static_cast<double>(sees.keys);
  if (sees.window)
    pairs -= sumOfClamped(sees.offset - sees.window + 1, shape[1], sees.keys);
  return 2.0 * matmuls * shape[0] * shape[2] * shape[3] * pairs;
}
double AttentionOp::getFlops() { return pairFlops(*this, 2); }
double AttentionGradOp::getFlops() { return pairFlops(*this, 5); }
EmitClass AttentionOp::getEmitClass() { return EmitClass::Special; }
EmitClass AttentionGradOp::getEmitClass() { return EmitClass::Special; }

//===-- Evaluate ------------------------------------------------------------===//

static constexpr double kUnseen = -std::numeric_limits<double>::infinity();

template <typename T> static T dot(const T *a, const T *b, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i)
    accumulate(sum, a[i] * b[i], n);
  return sum;
}
// Adds factor * from to `to`, as one of `terms` such additions.
template <typename T>
static void addScaled(T *to, const T *from, T factor, int64_t n, int64_t terms) {
  for (int64_t i = 0; i < n; ++i)
    accumulate(to[i], factor * from[i], terms);
}

namespace {
// Holds the score of one (row, key) pair, and its derivative by scale * q.k.
template <typename T> struct Score {
  T value, slope;
};

// Computes scores, and the offsets of vectors in [batch, rows or keys, heads or kv heads, dim].
template <typename T> struct Layout {
  int64_t batch, rows, heads, dim, keys, kvHeads;
  Visibility sees;
  double scale, softcap;
  const TensorOf<T> &query, &key, *mask = nullptr, *rowPositions = nullptr, *keyPositions = nullptr;
  int64_t offset, window; // with positions; window 0: none
  Strides maskStrides;
  bool maskAdds = false;

  // Takes what follows the op's other operands: mask, positions and draws.
  template <typename Op>
  Layout(Op op, const TensorOf<T> &q, const TensorOf<T> &k, Inputs<T> further)
      : batch(q.shape[0]), rows(q.shape[1]), heads(q.shape[2]), dim(q.shape[3]),
        keys(k.shape[1]), kvHeads(k.shape[2]), sees(Visibility::of(op)),
        scale(op.getScale().convertToDouble()), softcap(op.getSoftcap().convertToDouble()),
        query(q), key(k), offset(op.getOffset()), window(op.getWindow().value_or(0)) {
    if (!op.getPositions().empty())
      rowPositions = further[op.hasMask()], keyPositions = further[op.hasMask() + 1];
    if (!op.hasMask())
      return;
    mask = further[0];
    maskStrides = broadcastStrides(mask->shape, {batch, heads, rows, keys});
    maskAdds = isFloat(op.getMask());
  }
  // Returns whether the positions, if there are any, let the row see the key.
  bool isSeen(int64_t row, int64_t j) const {
    if (!rowPositions)
      return true;
    int64_t last = toInt64(valueOf(rowPositions->data[row])) + offset, at = toInt64(valueOf(keyPositions->data[j]));
    return at <= last && (window == 0 || at > last - window);
  }
  int64_t statistic(int64_t b, int64_t row, int64_t head) const {
    return (b * rows + row) * heads + head;
  }
  int64_t q(int64_t b, int64_t row, int64_t head) const { return statistic(b, row, head) * dim; }
  int64_t k(int64_t b, int64_t key, int64_t head) const {
    return ((b * keys + key) * kvHeads + head / (heads / kvHeads)) * dim;
  }
  Score<T> score(int64_t b, int64_t head, int64_t row, int64_t j) const {
    Score<T> score{scale * dot(&query.data[q(b, row, head)], &key.data[k(b, j, head)], dim), 1};
    if (softcap > 0) {
      T t = tanh(score.value / softcap);
      score = {softcap * t, 1 - t * t};
    }
    if (mask) {
      T m = mask->data[b * maskStrides[0] + head * maskStrides[1] + row * maskStrides[2] +
                            j * maskStrides[3]];
      if (maskAdds)
        score.value += m;
      else if (valueOf(m) == 0)
        score.value = kUnseen;
    }
    if (!isSeen(row, j))
      score.value = kUnseen;
    return score;
  }

  template <typename Body> void forEachRow(Body body) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t row = 0; row < rows; ++row)
          body(b, head, row);
  }
};
} // namespace

namespace {
// Draws the factors that dropout gives to softmax's weights; 1 without dropout.
template <typename T> struct Dropped {
  Inputs<T> draws;
  uint32_t place, threshold;
  T scale;

  template <typename Op>
  Dropped(Op op, Inputs<T> inputs)
      : draws(inputs.take_back(op.getDraws().size())), place(static_cast<uint32_t>(op.getPlace())),
        threshold(llmc::support::dropoutThreshold(op.getDropout().convertToDouble())),
        scale(T(1) / T(1 - op.getDropout().convertToDouble())) {}
  T factor(int64_t b, int64_t head, int64_t row, int64_t key) const {
    if (draws.empty())
      return 1;
    auto number = [&](size_t i, int64_t at) { return toInt64(valueOf(draws[i]->data[at])); };
    int64_t rowKey = number(0, b);
    uint32_t word = llmc::support::dropoutWord(rowKey, {uint32_t(number(1, 0)), place, uint32_t(number(2, row)),
                                                        uint32_t(number(3, head) + number(4, key))});
    return rowKey < 0 ? T(1) : word < threshold ? T(0) : scale;
  }
};
} // namespace

template <typename T>
static void meaning(AttentionOp op, Inputs<T> inputs, Outputs<T> outputs) {
  const TensorOf<T> &v = *inputs[2];
  Layout<T> at(op, *inputs[0], *inputs[1], inputs.drop_front(3));
  Dropped<T> dropped(op, inputs);
  std::vector<T> scores(at.keys);
  at.forEachRow([&](int64_t b, int64_t head, int64_t row) {
    int64_t first = at.sees.first(row), last = at.sees.last(row);
    T largest = kUnseen, sum = 0, &lse = outputs[1].data[at.statistic(b, row, head)];
    for (int64_t key = first; key < last; ++key)
      largest = maximum(largest, scores[key] = at.score(b, head, row, key).value);
    lse = largest;
    if (valueOf(largest) == kUnseen)
      return;
    for (int64_t key = first; key < last; ++key)
      accumulate(sum, scores[key] = exp(scores[key] - largest), last - first);
    T *o = &outputs[0].data[at.q(b, row, head)];
    for (int64_t key = first; key < last; ++key)
      addScaled(o, &v.data[at.k(b, key, head)], scores[key] / sum * dropped.factor(b, head, row, key),
                at.dim, last - first);
    lse += log(sum);
  });
}
LLMC_EVALUATE(AttentionOp)

template <typename T>
static void meaning(AttentionGradOp op, Inputs<T> inputs, Outputs<T> outputs) {
  const TensorOf<T> &g = *inputs[0], &q = *inputs[1], &k = *inputs[2], &v = *inputs[3],
               &o = *inputs[4], &lse = *inputs[5];
  Layout<T> at(op, q, k, inputs.drop_front(6));
  Dropped<T> dropped(op, inputs);
  int64_t queries = at.rows * (at.heads / at.kvHeads);
  // Skip dq, or dk and dv, where the caller has emptied the output.
  bool wantsRows = !outputs[0].data.empty(), wantsKeys = !outputs[1].data.empty();
  at.forEachRow([&](int64_t b, int64_t head, int64_t row) {
    int64_t i = at.q(b, row, head);
    T logSum = lse.data[at.statistic(b, row, head)];
    if (valueOf(logSum) == kUnseen)
      return;
    T delta = dot(&g.data[i], &o.data[i], at.dim);
    for (int64_t key = at.sees.first(row); key < at.sees.last(row); ++key) {
      int64_t j = at.k(b, key, head);
      Score<T> score = at.score(b, head, row, key);
      T p = exp(score.value - logSum), factor = dropped.factor(b, head, row, key);
      T slope = at.scale * score.slope * p * (factor * dot(&g.data[i], &v.data[j], at.dim) - delta);
      if (wantsRows)
        addScaled(&outputs[0].data[i], &k.data[j], slope, at.dim, at.keys);
      if (!wantsKeys)
        continue;
      addScaled(&outputs[1].data[j], &q.data[i], slope, at.dim, queries);
      addScaled(&outputs[2].data[j], &g.data[i], p * factor, at.dim, queries);
    }
  });
}
LLMC_EVALUATE(AttentionGradOp)

//===-- Gradient ------------------------------------------------------------===//

// Appends an element to each head.
static Value withElement(Build &b, Value heads, Value element) {
  return b.concat({heads, b.cast(element, elementOf(heads))}, 3);
}
static Value withConstant(Build &b, Value heads, double value) {
  SmallVector<int64_t> shape(shapeOf(heads));
  shape.back() = 1;
  return withElement(b, heads, b.broadcast(b.constant(value, elementOf(heads)), shape));
}

LogicalResult AttentionOp::differentiate(OpBuilder &builder, ArrayRef<Value> cotangents,
                                         SmallVectorImpl<Value> &gradients) {
  gradients.assign((*this)->getNumOperands(), Value());
  if (!cotangents[0] && !cotangents[1])
    return success();
  Build b(builder, getLoc());
  int64_t dim = shapeOf(getQ()).back();
  Value q = getQ(), k = getK(), v = getV(), o = getO(), g = cotangents[0];
  if (Value statistic = cotangents[1]) {
    // Adds it to (cotangent . v - cotangent . o) of each score: as the cotangent of one more element of
    // each head, which is -1 in o and 0 in all others.
    SmallVector<int64_t> shape(shapeOf(statistic));
    shape.push_back(1);
    g = withElement(b, g ? g : b.constantLike(0, o), b.reshape(statistic, shape));
    o = withConstant(b, o, -1);
    for (Value *heads : {&q, &k, &v})
      *heads = withConstant(b, *heads, 0);
  }
  auto op = AttentionGradOp::create(
      builder, getLoc(), TypeRange{q.getType(), k.getType(), v.getType()}, g, q, k, v, o, getLse(), getFurther(),
      getScaleAttr(), getCausalAttr(), getOffsetAttr(), getWindowAttr(), getSoftcapAttr(), getDropoutAttr(),
      getPlaceAttr(), getRingAttr());
  for (auto [gradient, whole] : llvm::zip(gradients, op.getResults()))
    gradient = cotangents[1] ? b.slice(whole, 3, 0, dim) : whole;
  return success();
}
LogicalResult AttentionGradOp::differentiate(OpBuilder &, ArrayRef<Value>,
                                             SmallVectorImpl<Value> &) {
  return failure();
}
