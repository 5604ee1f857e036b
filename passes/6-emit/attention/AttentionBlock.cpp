#include "passes/6-emit/attention/AttentionBlock.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/6-emit/kernel/Dropout.h"
#include <limits>

using namespace mlir;

namespace llmc::emit {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool AttentionBlocks::maskHasRows() const {
  return shape.mask && cast<RankedTensorType>(shape.mask.getType()).getDimSize(2) != 1;
}

AttentionBlocks::AttentionBlocks(Kernel &k, const AttentionShape &shape, int64_t keyBlock,
                                 bool wantsSlopes)
    : k(k), shape(shape), keyBlock(keyBlock) {
  vectors = std::min<int64_t>(shape.chunk() / k.lanes(), tileVectors(k));
  width = vectors * k.lanes();
  auto block = [&](int64_t count) { return k.stackArray(k.b.getF32Type(), count * width); };
  queries = block(shape.dim);
  scores = block(keyBlock);
  if (shape.mask)
    mask = k.buffer(cast<BlockArgument>(shape.mask).getArgNumber());
  if (maskHasRows())
    biases = block(keyBlock);
  if (wantsSlopes && shape.softcap)
    slopes = block(keyBlock);
  if (shape.dropout > 0)
    positions = k.stackArray(k.b.getI64Type(), width);
  if (!shape.positions.empty())
    lastSeen = k.stackArray(k.b.getI32Type(), width);
}

//===-- Ranges --------------------------------------------------------------===//

void AttentionBlocks::panels(Value batch, Value head, Value from, Value to,
                             const std::function<void(const Panel &)> &body) const {
  Value kvHead = k.divFloor(head, shape.heads / shape.kvHeads);
  Value kvStart = k.mul(k.add(k.mul(batch, shape.keys * shape.kvHeads), kvHead), shape.dim);
  k.loop(from, to, width, [&](Value i) {
    Panel panel{batch, head, i, k.min(k.index(width), k.sub(to, i)), kvStart, {}, {}};
    if (lastSeen) {
      Value none = k.index(AttentionShape::kFarthest);
      auto bounds = k.loop(k.index(0), k.index(width), 1, {none, k.sub(k.index(0), none)},
                           [&](Value column, ValueRange carried, SmallVectorImpl<Value> &next) {
                             Value query = k.add(i, k.min(column, k.sub(panel.rows, k.index(1))));
                             Value last = shape.lastSeen(k, query);
                             Value narrow = arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), last);
                             k.store(narrow, k.address(lastSeen, column, k.b.getI32Type()));
                             next.append({k.min(carried[0], last), k.max(carried[1], last)});
                           });
      panel.leastSeen = bounds[0], panel.mostSeen = bounds[1];
    }
    if (positions)
      k.loop(k.index(0), k.index(width), 1, [&](Value column) {
        Value query = k.add(i, k.min(column, k.sub(panel.rows, k.index(1))));
        k.store(shape.drawn(k, 2, query), k.address(positions, column, k.b.getI64Type()));
      });
    body(panel);
  });
}

SmallVector<Value> AttentionBlocks::keyBlocks(const Panel &panel, Value low, Value high,
                                              ValueRange init, const KeysBody &body) const {
  Value first = k.max(shape.visible(k, panel.i).first, low);
  Value last = k.sub(k.add(panel.i, panel.rows), k.index(1));
  Value limit = k.min(shape.visible(k, last).second, high);
  return k.loop(first, limit, keyBlock, init,
                [&](Value from, ValueRange carried, SmallVectorImpl<Value> &next) {
                  Value to = k.min(k.add(from, k.index(keyBlock)), limit);
                  if (lastSeen) {
                    // Empties a block that no query of the panel sees.
                    auto [least, most] = boundsOfKeys(from, to);
                    Value seen = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sle, least, panel.mostSeen);
                    if (shape.window) {
                      Value first = k.sub(panel.leastSeen, k.index(shape.reach()));
                      seen = arith::AndIOp::create(
                          k.b, k.loc, seen, arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sgt, most, first));
                    }
                    to = arith::SelectOp::create(k.b, k.loc, seen, to, from);
                  }
                  body(from, to, carried, next);
                });
}

// Returns the least and the greatest position of keys [from, to).
std::pair<Value, Value> AttentionBlocks::boundsOfKeys(Value from, Value to) const {
  Value none = k.index(AttentionShape::kFarthest);
  auto bounds = k.loop(from, to, 1, {none, k.sub(k.index(0), none)},
                       [&](Value j, ValueRange carried, SmallVectorImpl<Value> &next) {
                         Value position = shape.positionOfKey(k, j);
                         next.append({k.min(carried[0], position), k.max(carried[1], position)});
                       });
  return {bounds[0], bounds[1]};
}

Value AttentionBlocks::place(const Panel &panel, Value i) const {
  return k.add(k.mul(k.add(k.mul(panel.batch, shape.rows), i), shape.heads), panel.head);
}

Value AttentionBlocks::placeOf(const Panel &panel, Value column) const {
  Value last = k.sub(panel.rows, k.index(1));
  return place(panel, k.add(panel.i, k.min(column, last)));
}

//===-- Columns -------------------------------------------------------------===//

Value AttentionBlocks::at(Value columns, Value n, unsigned v) const {
  return k.address(columns, k.add(k.mul(n, width), k.index(v * k.lanes())), k.b.getF32Type());
}
Value AttentionBlocks::load(Value columns, Value n, unsigned v) const {
  return k.load(at(columns, n, v), k.b.getF32Type(), k.lanes());
}
Value AttentionBlocks::splat(double value) const {
  auto type = VectorType::get({k.lanes()}, k.b.getF32Type());
  return arith::ConstantOp::create(k.b, k.loc,
                                   DenseElementsAttr::get(type, k.b.getF32FloatAttr(value)));
}

Value AttentionBlocks::dropoutFactor(const Panel &panel, Value key, unsigned v) const {
  Type i64 = k.b.getI64Type();
  auto spread = [&](Value x) -> Value {
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(i64, k.lanes()), x);
  };
  Value position = k.load(k.address(positions, k.index(v * k.lanes()), i64), i64, k.lanes());
  return DropoutDraw{shape.dropout, shape.place, spread(shape.drawn(k, 0, panel.batch)),
                     spread(shape.drawn(k, 1, k.index(0))), position,
                     spread(shape.drawnElement(k, panel.head, key))}
      .factor({k.b, k.loc}, typeOf(k.b.getF32Type(), k.lanes()));
}

void AttentionBlocks::zero(Value columns, int64_t count) const {
  k.loop(k.index(0), k.index(count), 1, [&](Value n) {
    for (unsigned v = 0; v < vectors; ++v)
      k.store(splat(0), at(columns, n, v));
  });
}

BlockTranspose AttentionBlocks::transpose(const Panel &panel, Value columns, Value tensor) const {
  auto row = [this, panel, tensor](Value r) {
    return k.address(tensor, k.mul(placeOf(panel, r), shape.dim), shape.element);
  };
  return {k, columns, width, row, {}};
}

BlockProduct::Rows AttentionBlocks::keyRows(Value tensor, const Panel &panel, Value from) const {
  Value start = k.add(panel.kvStart, k.mul(from, shape.keyStride()));
  return {k.address(tensor, start, shape.element), shape.keyStride()};
}

Value AttentionBlocks::wideRows(int64_t count) const {
  return isNarrow(shape.element) ? k.stackArray(k.b.getF32Type(), count * shape.dim) : Value();
}

void AttentionBlocks::widen(Value tensor, Value start, int64_t stride, Value count,
                            Value rows) const {
  k.loop(k.index(0), count, 1, [&](Value r) {
    Value source = k.add(start, k.mul(r, stride)), target = k.mul(r, shape.dim);
    k.vectors(k.index(0), k.index(shape.dim), shape.dim, [&](Value n, unsigned width) {
      Value x = k.load(k.address(tensor, k.add(source, n), shape.element), shape.element, width);
      k.store(x, k.address(rows, k.add(target, n), k.b.getF32Type()));
    });
  });
}

BlockProduct::Rows AttentionBlocks::floatKeys(Value tensor, const Panel &panel, Value from,
                                              Value to, Value rows) const {
  if (!rows)
    return keyRows(tensor, panel, from);
  Value start = k.add(panel.kvStart, k.mul(from, shape.keyStride()));
  widen(tensor, start, shape.keyStride(), k.sub(to, from), rows);
  return {rows, shape.dim};
}

void AttentionBlocks::multiplyKeys(BlockProduct::Rows keys, Value from, Value to, Value columns,
                                   Value result) const {
  BlockProduct{k}.emit({keys.base, keys.stride, 1}, {columns, width}, {result, width}, k.sub(to, from),
                       k.index(shape.dim), width, BlockProduct::Start::Zero);
}

// Computes 2^n 2^r with an integer n and |r| <= 1/2. Adding 1.5 * 2^23 leaves n in the low bits.
Value AttentionBlocks::power(Value x) const {
  Math m{k.b, k.loc};
  Value log2e = m.f(M_LOG2E, x), shifter = m.f(12582912, x);
  Value shifted = m.fma(x, log2e, shifter);
  Value r = m.fma(x, log2e, m.neg(m.sub(shifted, shifter)));
  Value p = m.polynomial(r, {1.5345811602e-4, 1.3399931216e-3, 9.6184889586e-3, 5.5503287770e-2,
                             2.4022646891e-1, 6.9314720574e-1, 1});
  Type bits = VectorType::get({k.lanes()}, k.b.getI32Type());
  Value n = arith::BitcastOp::create(k.b, k.loc, bits, shifted);
  Value exponent = arith::ShLIOp::create(k.b, k.loc, n, m.i(23, n));
  Value y =
      arith::AddIOp::create(k.b, k.loc, arith::BitcastOp::create(k.b, k.loc, bits, p), exponent);
  y = arith::BitcastOp::create(k.b, k.loc, x.getType(), y);
  return m.select(m.less(x, m.f(-87, x)), m.f(0, x), y);
}

//===-- Scores --------------------------------------------------------------===//

void AttentionBlocks::makeScores(BlockProduct::Rows keys, const Panel &panel, Value from,
                                 Value to) const {
  multiplyKeys(keys, from, to, queries, scores);
  if (maskHasRows())
    addBias(panel, from, to);
  if (shape.mask || shape.softcap)
    applyRules(panel, from, to);
  if (!shape.causal)
    return;
  if (lastSeen)
    return hideByPosition(from, to);
  Value last = k.sub(k.add(panel.i, panel.rows), k.index(1));
  Value someHidden = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sgt, to,
                                           shape.visible(k, panel.i).second);
  if (shape.window)
    someHidden = arith::OrIOp::create(k.b, k.loc, someHidden,
                                      arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::slt,
                                                            from, shape.visible(k, last).first));
  k.ifThen(someHidden, [&] { hide(panel, from, to); });
}

// Transposes rows of the mask into columns of `biases`; a boolean mask becomes 0 or -inf.
void AttentionBlocks::addBias(const Panel &panel, Value from, Value to) const {
  Math m{k.b, k.loc};
  Type element = getElementTypeOrSelf(shape.mask);
  auto row = [&](Value r) {
    Value i = k.add(panel.i, k.min(r, k.sub(panel.rows, k.index(1))));
    Value start = shape.maskStart(k, panel.batch, panel.head, i);
    return k.address(mask, k.add(start, from), element);
  };
  auto map = [&](Value x) -> Value {
    if (isa<FloatType>(element))
      return x;
    Type type = typeOf(k.b.getF32Type(), widthOf(x.getType()));
    Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(type));
    return m.select(x, zero, m.f(-kInfinity, zero));
  };
  BlockTranspose{k, biases, width, row, map}.in(width, k.sub(to, from), element);
}

// Applies softcap, then the mask.
void AttentionBlocks::applyRules(const Panel &panel, Value from, Value to) const {
  Math m{k.b, k.loc};
  Type element = shape.mask ? getElementTypeOrSelf(shape.mask) : Type();
  bool adds = isa_and_nonnull<FloatType>(element);
  Value hidden = splat(-kInfinity);
  k.loop(k.index(0), k.sub(to, from), 1, [&](Value j) {
    Value key;
    if (shape.mask && !maskHasRows()) {
      Value start = shape.maskStart(k, panel.batch, panel.head, panel.i);
      key = k.load(k.address(mask, k.add(k.add(start, from), j), element), element);
      if (adds)
        key = vector::BroadcastOp::create(k.b, k.loc, hidden.getType(), key);
    }
    for (unsigned v = 0; v < vectors; ++v) {
      Value s = load(scores, j, v);
      if (shape.softcap) {
        Value t = m.tanh(m.mul(s, splat(1 / shape.softcap)));
        s = m.mul(t, splat(shape.softcap));
        if (slopes)
          k.store(m.fma(m.neg(t), t, splat(1)), at(slopes, j, v));
      }
      if (shape.mask && adds) {
        s = m.add(s, key ? key : load(biases, j, v));
      } else if (shape.mask) {
        Value seen = key;
        if (!seen)
          seen = arith::CmpFOp::create(k.b, k.loc, arith::CmpFPredicate::OEQ, load(biases, j, v),
                                       splat(0));
        s = m.select(seen, s, hidden);
      }
      k.store(s, at(scores, j, v));
    }
  });
}

// Stores -inf where the query in the lane is before key j or, in a window, too far behind it.
void AttentionBlocks::hide(const Panel &panel, Value from, Value to) const {
  Math m{k.b, k.loc};
  Type i32 = k.b.getI32Type();
  auto type = VectorType::get({k.lanes()}, i32);
  auto bound = [&](Value j, int64_t distance) -> Value {
    Value lane = k.sub(k.sub(j, panel.i), k.index(distance));
    lane = k.min(k.max(lane, k.index(-1)), k.index(width));
    lane = arith::TruncIOp::create(k.b, k.loc, i32, lane);
    return vector::BroadcastOp::create(k.b, k.loc, type, lane);
  };
  k.loop(from, to, 1, [&](Value j) {
    Value first = bound(j, shape.ahead());
    Value last = shape.window ? bound(j, shape.behind()) : Value();
    for (unsigned v = 0; v < vectors; ++v) {
      SmallVector<int32_t> numbers;
      for (unsigned lane = 0; lane < k.lanes(); ++lane)
        numbers.push_back(v * k.lanes() + lane);
      Value lane = arith::ConstantOp::create(
          k.b, k.loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
      Value seen = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sge, lane, first);
      if (last)
        seen = arith::AndIOp::create(
            k.b, k.loc, seen,
            arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sle, lane, last));
      Value place = at(scores, k.sub(j, from), v);
      k.store(m.select(seen, k.load(place, k.b.getF32Type(), k.lanes()), splat(-kInfinity)), place);
    }
  });
}

// Stores -inf where the position of key j is after the last that the query in the lane sees, or too far
// before it.
void AttentionBlocks::hideByPosition(Value from, Value to) const {
  Math m{k.b, k.loc};
  Type i32 = k.b.getI32Type();
  auto type = VectorType::get({k.lanes()}, i32);
  k.loop(from, to, 1, [&](Value j) {
    Value position = arith::TruncIOp::create(k.b, k.loc, i32, shape.positionOfKey(k, j));
    position = vector::BroadcastOp::create(k.b, k.loc, type, position);
    for (unsigned v = 0; v < vectors; ++v) {
      Value last = k.load(k.address(lastSeen, k.index(v * k.lanes()), i32), i32, k.lanes());
      Value seen = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sle, position, last);
      if (shape.window) {
        Value reach = arith::ConstantOp::create(
            k.b, k.loc, DenseElementsAttr::get(type, static_cast<int32_t>(shape.reach())));
        Value first = arith::SubIOp::create(k.b, k.loc, last, reach);
        seen = arith::AndIOp::create(
            k.b, k.loc, seen, arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::sgt, position, first));
      }
      Value place = at(scores, k.sub(j, from), v);
      k.store(m.select(seen, k.load(place, k.b.getF32Type(), k.lanes()), splat(-kInfinity)), place);
    }
  });
}

} // namespace llmc::emit
