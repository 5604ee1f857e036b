#include "passes/6-emit/group/Reduction.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace llmc::emit {

SmallVector<unsigned> Reducer::reducedLoops() const {
  SmallVector<unsigned> result;
  for (auto [i, loop] : llvm::enumerate(group.loops))
    if (loop.reduced)
      result.push_back(i);
  return result;
}

std::pair<Value, std::optional<int64_t>> Reducer::bounds(unsigned loop) {
  if (outerSize && loop == outerLoop)
    return {outerSize, std::nullopt};
  return {group.kernel.index(group.loops[loop].size), group.loops[loop].size};
}

unsigned Reducer::termLanes() {
  return group.kernel.widthAlong(bounds(reducedLoops().back()).second,
                                 group.kernel.target.termLanes);
}

int64_t Reducer::count(Operation *op) {
  auto shape = cast<RankedTensorType>(op->getOperand(0).getType()).getShape();
  int64_t product = 1;
  for (auto [size, reduced] : llvm::zip(shape, lookupReductionRoot(op)->reducedDims(op)))
    product *= reduced ? size : 1;
  return product;
}

//===-- Accumulators --------------------------------------------------------===//

Type wideType(Type element) {
  return isa<FloatType>(element) ? Float64Type::get(element.getContext()) : element;
}

static Value addHalves(Kernel &k, Value vector) {
  int64_t half = widthOf(vector.getType()) / 2;
  auto cut = [&](int64_t from) -> Value {
    return vector::ExtractStridedSliceOp::create(k.b, k.loc, vector, from, half, 1);
  };
  return arith::AddFOp::create(k.b, k.loc, cut(0), cut(half));
}

Value Reducer::accumulate(const Accumulator &kind, Value carried, Value term) {
  OpBuilder &b = group.kernel.b;
  Location loc = group.kernel.loc;
  Math m = group.math();
  bool isFloat = isa<FloatType>(kind.element);
  if (kind.element.isInteger(1)) // the sum or maximum of bits is whether any is set
    return arith::OrIOp::create(b, loc, term, carried);
  if (kind.isMax && isFloat)
    return m.larger(term, carried);
  if (kind.isMax)
    return arith::MaxSIOp::create(b, loc, term, carried);
  if (!isFloat)
    return arith::AddIOp::create(b, loc, carried, term);
  for (unsigned fold = kind.fold; fold > 1; fold /= 2)
    term = addHalves(group.kernel, term);
  Type wide = typeOf(elementOf(carried.getType()), widthOf(term.getType()));
  if (wide != term.getType())
    term = arith::ExtFOp::create(b, loc, wide, term);
  return m.add(carried, term);
}

static Value horizontal(Kernel &k, bool isMax, Value vector) {
  if (widthOf(vector.getType()) == 1 && !isa<VectorType>(vector.getType()))
    return vector;
  Type element = elementOf(vector.getType());
  bool isFloat = isa<FloatType>(element);
  auto kind = element.isInteger(1) ? vector::CombiningKind::OR
              : !isMax             ? vector::CombiningKind::ADD
              : isFloat            ? vector::CombiningKind::MAXNUMF
                                   : vector::CombiningKind::MAXSI;
  return vector::ReductionOp::create(k.b, k.loc, kind, vector);
}

Value Reducer::finish(const Accumulator &kind, Value vector, Value rest) {
  Kernel &k = group.kernel;
  Value total = vector;
  if (!overColumns()) {
    total = horizontal(k, kind.isMax, vector);
    total = accumulate({kind.isMax, elementOf(total.getType())}, total, rest);
    k.combined(total, kind.isMax);
  }
  Type type = typeOf(kind.element, widthOf(total.getType()));
  return total.getType() == type ? total : arith::TruncFOp::create(k.b, k.loc, type, total);
}

//===-- Loops ---------------------------------------------------------------===//

// Reduces along the vector loop of a row: accumulates full vectors into the first half of
// `carried`, and what is left over into the scalars of the second half.
SmallVector<Value> Reducer::walkVectors(unsigned loop, Point &point, ValueRange carried,
                                        ArrayRef<Accumulator> kinds, const Terms &terms) {
  Kernel &k = group.kernel;
  unsigned termLanes = this->termLanes();
  size_t n = kinds.size();
  auto step = [&](Value i, unsigned width, ValueRange from, SmallVectorImpl<Value> &next) {
    Point inner = point.inside(loop, i, width);
    auto values = terms(inner);
    next.append(from.begin(), from.end());
    for (size_t t = 0; t < n; ++t) {
      size_t slot = width == termLanes ? t : n + t;
      Value value = values[t];
      if (width != termLanes && width > 1) {
        Accumulator kind = kinds[t];
        if (isa<FloatType>(kind.element) && !kind.isMax)
          value = arith::ExtFOp::create(k.b, k.loc, typeOf(wideType(kind.element), width), value);
        value = horizontal(k, kind.isMax, value);
        next[slot] = accumulate({kind.isMax, elementOf(value.getType())}, from[slot], value);
        continue;
      }
      Accumulator kind = kinds[t];
      kind.fold = slot == t ? kind.fold : 1;
      next[slot] = accumulate(kind, from[slot], value);
    }
  };
  auto [size, known] = bounds(loop);
  Value zero = k.index(0);
  SmallVector<Value> state(carried);
  Value full =
      known ? k.index(*known / termLanes * termLanes) : k.sub(size, k.modulo(size, termLanes));
  if (known && k.target.threads) // the last vector may reach past the end
    full = k.index(*known);
  if (!known || *known >= termLanes)
    state = k.loop(zero, full, termLanes, state,
                   [&](Value i, ValueRange from, SmallVectorImpl<Value> &next) {
                     step(i, termLanes, from, next);
                   },
                   Kernel::LoopKind::Elements);
  if (!known)
    return k.loop(
        full, size, 1, state,
        [&](Value i, ValueRange from, SmallVectorImpl<Value> &next) { step(i, 1, from, next); },
        Kernel::LoopKind::Elements);
  if (*known % termLanes && !k.target.threads) {
    SmallVector<Value> next;
    step(full, *known % termLanes, state, next);
    state = next;
  }
  return state;
}

SmallVector<Value> Reducer::walk(ArrayRef<unsigned> loops, Point &point, ValueRange carried,
                                 ArrayRef<Accumulator> kinds, const Terms &terms) {
  Kernel &k = group.kernel;
  if (loops.empty()) {
    auto values = terms(point);
    SmallVector<Value> next;
    for (auto [kind, from, value] : llvm::zip(kinds, carried, values))
      next.push_back(accumulate(kind, from, value));
    return next;
  }
  if (loops.size() == 1 && !overColumns())
    return walkVectors(loops[0], point, carried, kinds, terms);
  bool isOutermost = overColumns() && loops.size() == reducedLoops().size();
  if (overColumns() && loops.size() == 1 && !k.target.threads)
    group.prefetchedLoop = loops[0];
  auto totals = k.loop(
      k.index(0), bounds(loops[0]).first, 1, carried,
      [&](Value i, ValueRange from, SmallVectorImpl<Value> &next) {
        Point inner = point.inside(loops[0], i, point.width);
        next = walk(loops.drop_front(), inner, from, kinds, terms);
      },
      isOutermost ? Kernel::LoopKind::Terms : Kernel::LoopKind::InOrder);
  group.prefetchedLoop.reset();
  if (isOutermost)
    k.combined(totals, llvm::map_to_vector(kinds, [](auto &kind) { return kind.isMax; }));
  return totals;
}

Value identity(Kernel &k, bool isMax, Type element, unsigned width) {
  Type type = typeOf(element, width);
  Attribute value;
  if (isa<FloatType>(element))
    value = k.b.getFloatAttr(element, isMax ? -std::numeric_limits<double>::infinity() : 0.0);
  else
    value =
        k.b.getIntegerAttr(element, isMax && !element.isInteger(1)
                                        ? APInt::getSignedMinValue(element.getIntOrFloatBitWidth())
                                        : APInt::getZero(element.getIntOrFloatBitWidth()));
  if (width > 1)
    value = DenseElementsAttr::get(cast<VectorType>(type), value);
  return arith::ConstantOp::create(k.b, k.loc, cast<TypedAttr>(value));
}

// Bounds the elements of a row that the stack of a worker may hold.
static constexpr int64_t kMostKept = 1 << 14;

Value Reducer::rowArray(Type element) {
  int64_t size = group.loops.back().size;
  if (overColumns() || reducedLoops().size() != 1 || outerSize || size > kMostKept)
    return {};
  return group.kernel.stackArray(element, size);
}

// Bounds the rows, in elements, that are worth prefetching and leave room for it in a
// second-level cache.
static constexpr int64_t kLeastAhead = 256, kMostAhead = 1 << 16;

void Reducer::enterWalk() {
  int64_t size = group.loops.back().size;
  ++walks;
  group.prefetchesNextRow =
      (ahead == Ahead::EveryWalk || (ahead == Ahead::SecondWalk && walks == 2)) &&
      !group.kernel.target.threads && !overColumns() && reducedLoops().size() == 1 && !outerSize &&
      size >= kLeastAhead && size <= kMostAhead;
}

SmallVector<Value> Reducer::reduce(ArrayRef<Accumulator> kinds, const Terms &terms) {
  Kernel &k = group.kernel;
  enterWalk();
  SmallVector<Value> init;
  auto start = [&](unsigned width) {
    for (const Accumulator &kind : kinds)
      init.push_back(identity(k, kind.isMax, kind.isMax ? kind.element : wideType(kind.element),
                              width == 1 ? 1 : width / kind.fold));
  };
  start(overColumns() ? row.width : termLanes());
  if (!overColumns())
    start(1);
  auto state = walk(reducedLoops(), row, init, kinds, terms);
  SmallVector<Value> results;
  for (size_t t = 0; t < kinds.size(); ++t)
    results.push_back(
        finish(kinds[t], state[t], overColumns() ? Value() : state[kinds.size() + t]));
  return results;
}

Reducer::Accumulator Reducer::sumOfFolded(unsigned lanes) {
  bool isPlain = group.kernel.target.threads || overColumns() || reducedLoops().size() > 1;
  return {/*isMax=*/false, group.kernel.b.getF32Type(), isPlain ? 1 : lanes};
}
SmallVector<Value> Reducer::sums(unsigned count, const Terms &terms) {
  return reduce(SmallVector<Accumulator>(count, sumOfFolded(2)), terms);
}
Value Reducer::sum(const std::function<Value(Point &)> &term) {
  return sums(1, [&](Point &p) { return SmallVector<Value>{term(p)}; })[0];
}
Value Reducer::sumOfPositive(const std::function<Value(Point &)> &term) {
  return reduce({sumOfFolded(4)}, [&](Point &p) { return SmallVector<Value>{term(p)}; })[0];
}
Value Reducer::maximum(const std::function<Value(Point &)> &term) {
  Type f32 = group.kernel.b.getF32Type();
  return reduce({{/*isMax=*/true, f32}}, [&](Point &p) { return SmallVector<Value>{term(p)}; })[0];
}
Value Reducer::integers(bool isMax, Type element, const std::function<Value(Point &)> &term) {
  return reduce({{isMax, element}}, [&](Point &p) { return SmallVector<Value>{term(p)}; })[0];
}

void Reducer::forEach(const std::function<void(Point &)> &body) {
  Kernel &k = group.kernel;
  enterWalk();
  auto loops = reducedLoops();
  std::function<void(ArrayRef<unsigned>, Point &)> nest = [&](ArrayRef<unsigned> rest,
                                                              Point &point) {
    if (rest.empty())
      return body(point);
    auto [size, known] = bounds(rest[0]);
    if (rest.size() == 1 && !overColumns())
      return k.vectors(k.index(0), size, known, [&](Value i, unsigned width) {
        Point inner = point.inside(rest[0], i, width);
        body(inner);
      });
    bool isOutermost = overColumns() && rest.size() == loops.size();
    k.loop(
        k.index(0), size, 1,
        [&](Value i) {
          Point inner = point.inside(rest[0], i, point.width);
          nest(rest.drop_front(), inner);
        },
        isOutermost ? Kernel::LoopKind::Terms : Kernel::LoopKind::InOrder);
  };
  nest(loops, row);
}

} // namespace llmc::emit
