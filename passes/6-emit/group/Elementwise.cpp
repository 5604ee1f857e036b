// Emits elementwise ops: the table of their entries, and the loop nest that they run in.
#include "passes/6-emit/group/FusedGroup.h"
#include "passes/6-emit/kernel/Dropout.h"
#include "passes/6-emit/kernel/KernelEmitters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"
#include <cmath>

using namespace mlir;

namespace llmc::emit {

using Values = ArrayRef<Value>;
using Results = SmallVectorImpl<Value>;

static bool isFloat(Value value) { return isa<FloatType>(elementOf(value.getType())); }

//===-- Arithmetic ----------------------------------------------------------===//

static bool isBit(Value value) { return elementOf(value.getType()).isInteger(1); }
static Value number(Math &m, int64_t value, Value like) {
  return isFloat(like) ? m.f(static_cast<double>(value), like) : m.i(value, like);
}

// Emits an arithmetic op; of two i1 the result is whether the sum, difference or product is not
// zero.
template <typename FloatOp, typename IntOp, typename BitOp>
static void arithmetic(Math &m, Operation *, Values in, Results &out) {
  if (isFloat(in[0]))
    out.push_back(FloatOp::create(m.b, m.loc, in[0], in[1]));
  else if (isBit(in[0]))
    out.push_back(BitOp::create(m.b, m.loc, in[0], in[1]));
  else
    out.push_back(IntOp::create(m.b, m.loc, in[0], in[1]));
}

static Value compareValues(Math &m, graph::Predicate predicate, Value x, Value y) {
  static const arith::CmpFPredicate floats[] = {
      arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE, arith::CmpFPredicate::OLT,
      arith::CmpFPredicate::OLE, arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
  static const arith::CmpIPredicate ints[] = {arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
                                              arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
                                              arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  // Bits compare unsigned: an i1 is 0 or 1, not 0 or -1.
  static const arith::CmpIPredicate bits[] = {arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
                                              arith::CmpIPredicate::ult, arith::CmpIPredicate::ule,
                                              arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge};
  unsigned p = static_cast<unsigned>(predicate);
  if (isFloat(x))
    return arith::CmpFOp::create(m.b, m.loc, floats[p], x, y);
  return arith::CmpIOp::create(m.b, m.loc, isBit(x) ? bits[p] : ints[p], x, y);
}

// Holds the results of an integer division that never traps, as x86 would at x / 0 and at the
// smallest integer / -1. By 0 both are 0; an i1 is 0 or 1.
struct Division {
  Value quotient, remainder;
};
static Division divide(Math &m, Value x, Value y) {
  Value zero = m.i(0, x), one = m.i(1, x);
  if (isBit(x))
    return {arith::AndIOp::create(m.b, m.loc, x, y), zero};
  auto equals = [&](int64_t value) -> Value {
    return arith::CmpIOp::create(m.b, m.loc, arith::CmpIPredicate::eq, y, m.i(value, y));
  };
  Value byZero = equals(0), byMinusOne = equals(-1);
  Value divisor = m.select(byZero, one, m.select(byMinusOne, one, y));
  Value quotient = arith::DivSIOp::create(m.b, m.loc, x, divisor);
  Value negative = arith::SubIOp::create(m.b, m.loc, zero, x);
  quotient = m.select(byMinusOne, negative, m.select(byZero, zero, quotient));
  Value remainder = arith::RemSIOp::create(m.b, m.loc, x, divisor); // 0 where it is 1
  return {quotient, remainder};
}
static void quotient(Math &m, Operation *, Values in, Results &out) {
  out.push_back(isFloat(in[0]) ? m.div(in[0], in[1]) : divide(m, in[0], in[1]).quotient);
}
static void remainder(Math &m, Operation *, Values in, Results &out) {
  out.push_back(isFloat(in[0]) ? m.rem(in[0], in[1]) : divide(m, in[0], in[1]).remainder);
}
static void power(Math &m, Operation *, Values in, Results &out) {
  out.push_back(m.power(in[0], in[1]));
}

// Emits maximum or minimum; a NaN on either side gives NaN, as in PyTorch.
template <graph::Predicate better>
static void extreme(Math &m, Operation *, Values in, Results &out) {
  Value keep = compareValues(m, better, in[0], in[1]);
  if (isFloat(in[0])) {
    Value nan = arith::CmpFOp::create(m.b, m.loc, arith::CmpFPredicate::UNO, in[0], in[0]);
    keep = arith::OrIOp::create(m.b, m.loc, keep, nan);
  }
  out.push_back(m.select(keep, in[0], in[1]));
}

template <Value (Math::*function)(Value)>
static void unary(Math &m, Operation *, Values in, Results &out) {
  out.push_back((m.*function)(in[0]));
}

static void rsqrt(Math &m, Operation *, Values in, Results &out) {
  out.push_back(m.div(m.f(1, in[0]), m.sqrt(in[0])));
}
static void relu(Math &m, Operation *, Values in, Results &out) {
  out.push_back(m.select(m.less(in[0], m.f(0, in[0])), m.f(0, in[0]), in[0]));
}
static void constantPower(Math &m, Operation *op, Values in, Results &out) {
  out.push_back(m.pow(in[0], cast<graph::PowOp>(op).getExponent().convertToDouble()));
}
static Value negative(Math &m, Value x) {
  if (isFloat(x))
    return m.neg(x);
  return isBit(x) ? x : arith::SubIOp::create(m.b, m.loc, m.i(0, x), x).getResult();
}
static void negate(Math &m, Operation *, Values in, Results &out) {
  out.push_back(negative(m, in[0]));
}
static void magnitude(Math &m, Operation *, Values in, Results &out) {
  Value x = in[0];
  out.push_back(isFloat(x) ? m.abs(x)
                : isBit(x) ? x
                           : arith::MaxSIOp::create(m.b, m.loc, x, negative(m, x)).getResult());
}
static void sign(Math &m, Operation *, Values in, Results &out) {
  Value x = in[0], zero = number(m, 0, x), one = number(m, 1, x);
  if (isBit(x))
    return out.push_back(x);
  Value below = m.select(compareValues(m, graph::Predicate::lt, x, zero), negative(m, one), zero);
  out.push_back(m.select(compareValues(m, graph::Predicate::gt, x, zero), one, below));
}
static void logicalNot(Math &m, Operation *, Values in, Results &out) {
  out.push_back(arith::XOrIOp::create(m.b, m.loc, in[0], m.i(1, in[0])));
}
template <typename Op> static void logical(Math &m, Operation *, Values in, Results &out) {
  out.push_back(Op::create(m.b, m.loc, in[0], in[1]));
}
static void compare(Math &m, Operation *op, Values in, Results &out) {
  out.push_back(compareValues(m, cast<graph::CompareOp>(op).getPredicate(), in[0], in[1]));
}
static void select(Math &m, Operation *, Values in, Results &out) {
  out.push_back(m.select(in[0], in[1], in[2]));
}

// Converts a float to an integer, rounding toward zero; values beyond its range saturate, and
// NaN gives 0.
static Value toInteger(Math &m, Value x, Type type) {
  unsigned bits = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  Value limit = m.f(std::ldexp(1.0, bits - 1), x), zero = m.f(0, x);
  Value y = arith::FPToSIOp::create(m.b, m.loc, type, m.select(m.less(m.abs(x), limit), x, zero));
  y = m.select(compareValues(m, graph::Predicate::ge, x, limit), m.i(llvm::maxIntN(bits), y), y);
  return m.select(compareValues(m, graph::Predicate::le, x, m.neg(limit)),
                  m.i(llvm::minIntN(bits), y), y);
}

static void convert(Math &m, Operation *op, Values in, Results &out) {
  Value x = in[0];
  Type from = elementOf(x.getType());
  Type to = computingType(getElementTypeOrSelf(op->getResult(0).getType()));
  Type type = typeOf(to, widthOf(x.getType()));
  Value zero = arith::ConstantOp::create(m.b, m.loc, m.b.getZeroAttr(x.getType()));
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  auto make = [&](auto tag) { out.push_back(decltype(tag)::create(m.b, m.loc, type, x)); };
  if (from == to)
    out.push_back(x);
  else if (to.isInteger(1) && isFloat(x))
    out.push_back(arith::CmpFOp::create(m.b, m.loc, arith::CmpFPredicate::UNE, x, zero));
  else if (to.isInteger(1))
    out.push_back(arith::CmpIOp::create(m.b, m.loc, arith::CmpIPredicate::ne, x, zero));
  else if (from.isInteger(1))
    isa<FloatType>(to) ? make(arith::UIToFPOp()) : make(arith::ExtUIOp());
  else if (isFloat(x) && isa<FloatType>(to))
    fromBits < toBits ? make(arith::ExtFOp()) : make(arith::TruncFOp());
  else if (isFloat(x))
    out.push_back(toInteger(m, x, type));
  else if (isa<FloatType>(to))
    make(arith::SIToFPOp());
  else
    fromBits < toBits ? make(arith::ExtSIOp()) : make(arith::TruncIOp());
}

//===-- Activations ---------------------------------------------------------===//

// Computes gelu_tanh(x) = x / (1 + e^-2u) with u = sqrt(2/pi) (x + 0.044715 x^3): the same
// function as x (1 + tanh u) / 2 without the cancellation for negative x. Past the bounds it is
// 0 or x; at them |2u| is 86, and so is x^2 / 2 for the other form.
static constexpr double kCubic = 0.044715, kTanhBound = 9.942, kErfBound = 13;
static Value minusTwiceU(Math &m, Value x, Value square) {
  double c = -2 * std::sqrt(2 / M_PI);
  return m.mul(x, m.fma(square, m.f(c * kCubic, x), m.f(c, x)));
}
static void gelu(Math &m, Operation *op, Values in, Results &out) {
  bool isErf = cast<graph::GeluOp>(op).getForm() == graph::GeluForm::erf;
  double bound = isErf ? kErfBound : kTanhBound;
  Value x = m.larger(in[0], -bound), inner = m.smaller(x, bound);
  if (isErf)
    return out.push_back(m.mul(x, m.normal(inner).cdf));
  Value e = m.expBounded(minusTwiceU(m, inner, m.mul(inner, inner)));
  out.push_back(m.div(x, m.add(m.f(1, x), e)));
}

static void geluGrad(Math &m, Operation *op, Values in, Results &out) {
  bool isErf = cast<graph::GeluGradOp>(op).getForm() == graph::GeluForm::erf;
  double bound = isErf ? kErfBound : kTanhBound;
  Value x = m.smaller(m.larger(in[0], -bound), bound);
  if (isErf) {
    Math::Normal normal = m.normal(x);
    return out.push_back(m.mul(in[1], m.fma(x, normal.density, normal.cdf)));
  }
  // The derivative is s + x s (1 - s) 2u' with s = sigmoid(2u) = 1 / (1 + e) and 1 - s = e s.
  Value square = m.mul(x, x), e = m.expBounded(minusTwiceU(m, x, square));
  Value s = m.div(m.f(1, x), m.add(m.f(1, x), e));
  double c = 2 * std::sqrt(2 / M_PI);
  Value slope = m.fma(square, m.f(3 * c * kCubic, x), m.f(c, x));
  Value bend = m.mul(m.mul(x, slope), m.mul(e, s));
  out.push_back(m.mul(in[1], m.fma(bend, s, s)));
}

// Returns whether `x` is a tensor minus its maximum, which is never positive.
static bool isDistance(Value x) {
  auto difference = x.getDefiningOp<graph::SubOp>();
  if (!difference)
    return false;
  Value from = difference.getRhs();
  auto shape = cast<RankedTensorType>(from.getType()).getShape();
  while (auto reshape = from.getDefiningOp<graph::ReshapeOp>())
    from = reshape.getOperand();
  auto largest = from.getDefiningOp<graph::ReduceOp>();
  if (!largest || largest.getKind() != graph::ReduceKind::max ||
      largest.getOperand() != difference.getLhs())
    return false;
  SmallVector<int64_t> kept(largest.getOperand().getType().getShape());
  for (int64_t dim : largest.getDims())
    kept[dim] = 1;
  return shape == ArrayRef<int64_t>(kept);
}
static void exponential(Math &m, Operation *op, Values in, Results &out) {
  out.push_back(isDistance(op->getOperand(0)) ? m.expNonPositive(in[0]) : m.exp(in[0]));
}

// Selects 0 in place of multiplying by it: what is dropped may be infinite.
static void dropout(Math &m, Operation *op, Values in, Results &out) {
  auto dropout = cast<graph::DropoutOp>(op);
  DropoutDraw draw{dropout.getRate().convertToDouble(), static_cast<int64_t>(dropout.getPlace()),
                   in[1], in[2], in[3], in[4]};
  Value scaled = m.mul(in[0], draw.scale(m, in[0].getType()));
  out.push_back(m.select(draw.keeps(m), scaled, m.f(0, in[0])));
}

//===-- Optimizer -----------------------------------------------------------===//

static void adamw(Math &m, Operation *op, Values in, Results &out) {
  Value p = in[0], g = in[1], lr = in[4], beta1 = in[5], beta2 = in[6], eps = in[7];
  Value decay = in[8], c1 = in[9], c2 = in[10], one = m.f(1, p);
  Value moment1 = m.fma(beta1, in[2], m.mul(m.sub(one, beta1), g));
  Value moment2 = m.fma(beta2, in[3], m.mul(m.sub(one, beta2), m.mul(g, g)));
  Value step = m.div(m.div(moment1, c1), m.add(m.sqrt(m.div(moment2, c2)), eps));
  if (cast<graph::AdamWOp>(op).getDecay())
    step = m.fma(decay, p, step);
  out.append({m.sub(p, m.mul(lr, step)), moment1, moment2});
}

//===-- Table ---------------------------------------------------------------===//

ElementwiseEmitter lookupElementwise(Operation *op) {
  static const llvm::DenseMap<TypeID, ElementwiseEmitter> table = {
      {TypeID::get<graph::AddOp>(), arithmetic<arith::AddFOp, arith::AddIOp, arith::OrIOp>},
      {TypeID::get<graph::SubOp>(), arithmetic<arith::SubFOp, arith::SubIOp, arith::XOrIOp>},
      {TypeID::get<graph::MulOp>(), arithmetic<arith::MulFOp, arith::MulIOp, arith::AndIOp>},
      {TypeID::get<graph::DivOp>(), quotient},
      {TypeID::get<graph::RemOp>(), remainder},
      {TypeID::get<graph::PowerOp>(), power},
      {TypeID::get<graph::MaximumOp>(), extreme<graph::Predicate::ge>},
      {TypeID::get<graph::MinimumOp>(), extreme<graph::Predicate::le>},
      {TypeID::get<graph::AndOp>(), logical<arith::AndIOp>},
      {TypeID::get<graph::OrOp>(), logical<arith::OrIOp>},
      {TypeID::get<graph::NotOp>(), logicalNot},
      {TypeID::get<graph::NegOp>(), negate},
      {TypeID::get<graph::AbsOp>(), magnitude},
      {TypeID::get<graph::SignOp>(), sign},
      {TypeID::get<graph::FloorOp>(), unary<&Math::floor>},
      {TypeID::get<graph::CeilOp>(), unary<&Math::ceil>},
      {TypeID::get<graph::RoundOp>(), unary<&Math::round>},
      {TypeID::get<graph::SinOp>(), unary<&Math::sin>},
      {TypeID::get<graph::CosOp>(), unary<&Math::cos>},
      {TypeID::get<graph::ExpOp>(), exponential},
      {TypeID::get<graph::LogOp>(), unary<&Math::log>},
      {TypeID::get<graph::SqrtOp>(), unary<&Math::sqrt>},
      {TypeID::get<graph::RsqrtOp>(), rsqrt},
      {TypeID::get<graph::TanhOp>(), unary<&Math::tanh>},
      {TypeID::get<graph::ErfOp>(), unary<&Math::erf>},
      {TypeID::get<graph::SigmoidOp>(), unary<&Math::sigmoid>},
      {TypeID::get<graph::SoftplusOp>(), unary<&Math::softplus>},
      {TypeID::get<graph::ReluOp>(), relu},
      {TypeID::get<graph::PowOp>(), constantPower},
      {TypeID::get<graph::GeluOp>(), gelu},
      {TypeID::get<graph::GeluGradOp>(), geluGrad},
      {TypeID::get<graph::CompareOp>(), compare},
      {TypeID::get<graph::SelectOp>(), select},
      {TypeID::get<graph::CastOp>(), convert},
      {TypeID::get<graph::DropoutOp>(), dropout},
      {TypeID::get<graph::AdamWOp>(), adamw},
  };
  return table.lookup(op->getName().getTypeID());
}

//===-- Loop nest -----------------------------------------------------------===//

namespace {

// Emits the loops of an elementwise kernel. All loads of a point come before its stores, so that
// a write may replace a read.
struct Nest {
  FusedGroup &group;
  std::function<void(Point &)> body;
  std::optional<unsigned> crossed = group.transposedLoop();
  // Holds the stack arrays in which tiles lie between reading and use; null if so little is
  // computed from each row that the code for all of them may be unrolled.
  std::optional<std::vector<Value>> places = {};
  Value nonTemporal = {}; // i1: whether stores are non-temporal; or null

  void emit(Point &point, unsigned depth);
  void emitCrossed(Point &point, Value low, Value high);
  void square(const Point &point, Value i, Value j);
  void vectors(Point &point, Value low, Value high, std::optional<int64_t> size);
};

} // namespace

// Emits the loop along the last dim, in vectors.
void Nest::vectors(Point &point, Value low, Value high, std::optional<int64_t> size) {
  Kernel &k = group.kernel;
  unsigned last = group.loops.size() - 1;
  auto walk = [&](Value from, Value to, std::optional<int64_t> size) {
    auto visit = [&](Value i, unsigned width) {
      Point inner = point.inside(last, i, width);
      body(inner);
    };
    // Independent chains of operations hide the latency of each.
    k.vectors(from, to, size, visit, k.target.threads ? 0 : k.target.termLanes);
  };
  if (!nonTemporal)
    return walk(low, high, size);
  auto aligned = [&] {
    if (size)
      return group.nonTemporal([&] { walk(low, high, size); });
    Value up = k.sub(k.add(low, k.index(k.lanes() - 1)),
                     k.modulo(k.add(low, k.index(k.lanes() - 1)), k.lanes()));
    Value first = k.min(up, high);
    k.loop(low, first, 1, [&](Value i) {
      Point inner = point.inside(last, i);
      body(inner);
    });
    group.nonTemporal([&] { walk(first, high, size); });
  };
  k.ifElse(nonTemporal, aligned, [&] { walk(low, high, size); });
}

void Nest::emit(Point &point, unsigned depth) {
  Kernel &k = group.kernel;
  group.preload(point);
  const Loop &loop = group.loops[depth];
  Value low = depth ? k.index(0) : k.begin, high = depth ? k.index(loop.size) : k.end;
  if (depth + 1 == group.loops.size())
    return vectors(point, low, high, depth ? std::optional<int64_t>(loop.size) : std::nullopt);
  if (crossed == depth) {
    Value middle = k.sub(high, k.modulo(k.sub(high, low), k.lanes()));
    emitCrossed(point, low, middle);
    low = middle;
  }
  k.eachRow(low, high, [&](Value i) {
    Point inner = point.inside(depth, i);
    group.prefetchPieces(inner, depth);
    emit(inner, depth + 1);
  });
}

// Counts the rows and columns of a tile, several cache lines on both sides, and how many columns
// ahead it is prefetched, since the hardware prefetcher is late for what lies in pieces.
static constexpr int64_t kTileRows = 64, kTileColumns = 32, kColumnsAhead = 64;

// Bounds the ops whose code may be repeated once for each row of a square tile.
static constexpr int64_t kMostUnrolled = 4;

// Emits square tiles over the rows [low, high) of the loop `crossed` and over the last loop, for
// all iterations of the loops between them.
void Nest::emitCrossed(Point &point, Value low, Value high) {
  Kernel &k = group.kernel;
  int64_t lanes = k.lanes(), size = group.loops.back().size, full = size / lanes * lanes;
  unsigned last = group.loops.size() - 1;
  std::function<void(Point &, unsigned)> between = [&](Point &at, unsigned loop) {
    if (loop < last)
      return k.loop(k.index(0), k.index(group.loops[loop].size), 1, [&](Value i) {
        Point inner = at.inside(loop, i);
        between(inner, loop + 1);
      });
    k.loop(low, high, kTileRows, [&](Value tile) {
      Value end = k.min(k.add(tile, k.index(kTileRows)), high);
      k.loop(k.index(0), k.index(full), kTileColumns, [&](Value column) {
        Value edge = k.min(k.add(column, k.index(kTileColumns)), k.index(full));
        Value ahead = k.add(column, k.index(kColumnsAhead));
        if (full >= 4 * kColumnsAhead)
          group.prefetchTiles(at.inside(*crossed, tile).inside(last, ahead), kTileRows,
                             kTileColumns);
        k.loop(tile, end, lanes, [&](Value i) {
          k.loop(column, edge, lanes, [&](Value j) { square(at, i, j); });
        });
      });
    });
    if (size > full)
      k.loop(low, high, 1, [&](Value i) {
        Point row = at.inside(*crossed, i);
        row = row.inside(last, k.index(full), size - full);
        body(row);
      });
  };
  between(point, *crossed + 1);
}

void Nest::square(const Point &point, Value i, Value j) {
  Kernel &k = group.kernel;
  unsigned last = group.loops.size() - 1;
  Point corner = point.inside(*crossed, i).inside(last, j);
  FusedGroup::TransposedTiles squares = group.readTransposedTiles(corner);
  if (!places)
    return group.nonTemporalIf(nonTemporal, [&] {
      for (unsigned r = 0; r < k.lanes(); ++r) {
        Point row = point.inside(*crossed, k.add(i, k.index(r))).inside(last, j, k.lanes());
        group.useTileRow(squares, r, row);
        body(row);
      }
    });
  group.storeTiles(squares, *places);
  auto rows = [&] {
    k.loop(k.index(0), k.index(k.lanes()), 1, [&](Value r) {
      Point row = point.inside(*crossed, k.add(i, r)).inside(last, j, k.lanes());
      group.loadTileRow(*places, r, row);
      body(row);
    });
  };
  group.nonTemporalIf(nonTemporal, rows);
}

LogicalResult emitElementwise(Kernel &kernel, LaunchBody body) {
  auto results = body.results();
  auto type = cast<RankedTensorType>(results[0].getType());
  FusedGroup group(kernel, body.reads, type.getShape(), SmallVector<bool>(type.getRank(), false));
  for (auto [i, result] : llvm::enumerate(results)) {
    auto resultType = cast<RankedTensorType>(result.getType());
    if (resultType.getShape() != type.getShape())
      return body.block.getParentOp()->emitError()
             << "an elementwise kernel writes tensors of one shape, got " << type << " and "
             << resultType;
    if (failed(group.require(result, group.fullMap())))
      return failure();
    group.requireStore(body.reads + i, resultType, group.fullMap());
  }
  group.fuseLoops();
  kernel.rows = group.loops[0].size;
  Nest nest{group, [&](Point &point) {
              SmallVector<Value> values;
              for (Value result : results)
                values.push_back(group.at(result, group.fullMap(), point));
              for (auto [i, value] : llvm::enumerate(values))
                group.store(body.reads + i, value, point);
            }};
  if (nest.crossed && std::distance(body.block.begin(), body.block.end()) > kMostUnrolled)
    nest.places = group.allocateTiles();
  nest.nonTemporal = group.nonTemporalCondition(body.block.getNumArguments() - body.reads);
  Point start(group.loops.size());
  nest.emit(start, 0);
  if (nest.nonTemporal)
    kernel.ifThen(nest.nonTemporal, [&] { kernel.fence(); });
  return success();
}

} // namespace llmc::emit
