#include "passes/6-emit/attention/BlockProduct.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

// A tile, its vectors of b and one of a must fit 32 registers of AVX-512, or 16 of AVX2.
unsigned tileVectors(const Kernel &k) { return k.lanes() >= 16 ? 4 : 2; }
// Returns the rows of a tile: enough sums to hide the latency of a fused multiply-add.
static unsigned tileRows(unsigned vectors) {
  static constexpr unsigned rows[] = {8, 6, 4, 4};
  return rows[vectors - 1];
}

// Holds what the tiles of one panel of columns share; `mask` has the lanes of the last vector
// that exist, null if all do.
struct BlockProduct::Tile {
  Left a;
  Rows b, c;
  Value terms, column;
  unsigned vectors;
  Value mask;
  Start start;
  Value factors;
};

static Value loadLanes(Kernel &k, Value place, Value mask) {
  Type f32 = k.b.getF32Type();
  return mask ? k.loadMasked(place, f32, mask) : k.load(place, f32, k.lanes());
}

void BlockProduct::tile(const Tile &s, Value row, unsigned rows) const {
  Math m{k.b, k.loc};
  Type f32 = k.b.getF32Type(), wide = typeOf(f32, k.lanes());
  auto maskOf = [&](unsigned v) { return v + 1 == s.vectors ? s.mask : Value(); };
  auto place = [&](Value base, Value element, unsigned v) {
    return k.address(base, k.add(k.add(element, s.column), k.index(v * k.lanes())), f32);
  };
  auto rowStart = [&](unsigned r, int64_t stride) { return k.mul(k.add(row, k.index(r)), stride); };
  SmallVector<Value> init, scales;
  if (s.start == Start::Scaled)
    for (unsigned v = 0; v < s.vectors; ++v)
      scales.push_back(loadLanes(k, place(s.factors, k.index(0), v), maskOf(v)));
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned v = 0; v < s.vectors; ++v) {
      if (s.start == Start::Zero) {
        init.push_back(arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(wide)));
        continue;
      }
      Value old = loadLanes(k, place(s.c.base, rowStart(r, s.c.stride), v), maskOf(v));
      init.push_back(s.start == Start::Scaled ? m.mul(old, scales[v]) : old);
    }
  auto sums = k.loop(
      k.index(0), s.terms, 1, init, [&](Value t, ValueRange from, SmallVectorImpl<Value> &next) {
        SmallVector<Value> right;
        for (unsigned v = 0; v < s.vectors; ++v)
          right.push_back(loadLanes(k, place(s.b.base, k.mul(t, s.b.stride), v), maskOf(v)));
        for (unsigned r = 0; r < rows; ++r) {
          Value left = k.load(
              k.address(s.a.base, k.add(rowStart(r, s.a.row), k.mul(t, s.a.term)), f32), f32);
          left = vector::BroadcastOp::create(k.b, k.loc, wide, left);
          for (unsigned v = 0; v < s.vectors; ++v)
            next.push_back(m.fma(left, right[v], from[r * s.vectors + v]));
        }
      });
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned v = 0; v < s.vectors; ++v) {
      Value to = place(s.c.base, rowStart(r, s.c.stride), v), sum = sums[r * s.vectors + v];
      if (Value mask = maskOf(v))
        k.storeMasked(sum, to, mask);
      else
        k.store(sum, to);
    }
}

void BlockProduct::columnPanel(const Tile &s, Value rows) const {
  unsigned step = tileRows(s.vectors);
  if (auto known = getConstantIntValue(rows)) {
    int64_t whole = *known / step * step;
    if (whole)
      k.loop(k.index(0), k.index(whole), step, [&](Value row) { tile(s, row, step); });
    if (whole != *known)
      tile(s, k.index(whole), *known - whole);
    return;
  }
  Value whole = k.sub(rows, k.modulo(rows, step));
  k.loop(k.index(0), whole, step, [&](Value row) { tile(s, row, step); });
  k.loop(whole, rows, 1, [&](Value row) { tile(s, row, 1); });
}

// Emits panels of equal width, then one with the remaining columns.
void BlockProduct::emit(Left a, Rows b, Rows c, Value rows, Value terms, int64_t columns,
                        Start start, Value factors) const {
  int64_t lanes = k.lanes(), vectors = llvm::divideCeil(columns, lanes);
  int64_t panels = llvm::divideCeil(vectors, tileVectors(k));
  int64_t width = llvm::divideCeil(vectors, panels) * lanes, whole = columns / width * width;
  auto panel = [&](Value column, unsigned count, Value mask) {
    columnPanel({a, b, c, terms, column, count, mask, start, factors}, rows);
  };
  if (whole == width)
    panel(k.index(0), width / lanes, {});
  else if (whole)
    k.loop(k.index(0), k.index(whole), width,
           [&](Value column) { panel(column, width / lanes, {}); });
  int64_t rest = columns - whole;
  if (!rest)
    return;
  Value mask;
  if (rest % lanes) {
    SmallVector<bool> exists(lanes);
    std::fill_n(exists.begin(), rest % lanes, true);
    mask = arith::ConstantOp::create(
        k.b, k.loc,
        DenseElementsAttr::get(VectorType::get({lanes}, k.b.getI1Type()), ArrayRef<bool>(exists)));
  }
  panel(k.index(whole), llvm::divideCeil(rest, lanes), mask);
}

//===-- Transposes ----------------------------------------------------------===//

// Transposes by swapping ever larger off-diagonal squares: lane c of x[r] becomes lane r of
// x[c].
void BlockTranspose::square(SmallVectorImpl<Value> &x) const {
  int64_t lanes = k.lanes();
  for (int64_t s = 1; s < lanes; s *= 2) {
    SmallVector<int64_t> upper(lanes), lower(lanes);
    for (int64_t c = 0; c < lanes; ++c) {
      upper[c] = c & s ? lanes + c - s : c;
      lower[c] = c & s ? lanes + c : c + s;
    }
    for (int64_t r = 0; r < lanes; ++r) {
      if (r & s)
        continue;
      Value a = x[r], b = x[r + s];
      x[r] = vector::ShuffleOp::create(k.b, k.loc, a, b, upper);
      x[r + s] = vector::ShuffleOp::create(k.b, k.loc, a, b, lower);
    }
  }
}

void BlockTranspose::in(int64_t count, Value size, Type element) const {
  Type f32 = k.b.getF32Type();
  int64_t lanes = k.lanes();
  auto mapped = [&](Value x) { return map ? map(x) : x; };
  auto to = [&](Value column, Value r) {
    return k.address(columns, k.add(k.mul(column, stride), r), f32);
  };
  Value whole = k.sub(size, k.modulo(size, lanes));
  k.loop(k.index(0), k.index(count), lanes, [&](Value first) {
    SmallVector<Value> rows;
    for (int64_t r = 0; r < lanes; ++r)
      rows.push_back(row(k.add(first, k.index(r))));
    k.loop(k.index(0), whole, lanes, [&](Value column) {
      SmallVector<Value> x;
      for (Value start : rows)
        x.push_back(mapped(k.load(k.address(start, column, element), element, lanes)));
      square(x);
      for (int64_t c = 0; c < lanes; ++c)
        k.store(x[c], to(k.add(column, k.index(c)), first));
    });
  });
  k.loop(k.index(0), k.index(count), 1, [&](Value r) {
    Value start = row(r);
    k.loop(whole, size, 1, [&](Value column) {
      k.store(mapped(k.load(k.address(start, column, element), element)), to(column, r));
    });
  });
}

void BlockTranspose::out(Value count, int64_t size, Type element, Value factors) const {
  Math m{k.b, k.loc};
  Type f32 = k.b.getF32Type();
  int64_t lanes = k.lanes(), full = size / lanes * lanes;
  auto from = [&](Value column, Value r, unsigned width) {
    Value x = k.load(k.address(columns, k.add(k.mul(column, stride), r), f32), f32, width);
    return factors ? m.mul(x, k.load(k.address(factors, r, f32), f32, width)) : x;
  };
  auto one = [&](Value start, Value column, Value r) {
    k.store(from(column, r, 1), k.address(start, column, element), element);
  };
  Value whole = k.sub(count, k.modulo(count, lanes));
  if (full)
    k.loop(k.index(0), whole, lanes, [&](Value first) {
      SmallVector<Value> rows;
      for (int64_t r = 0; r < lanes; ++r)
        rows.push_back(row(k.add(first, k.index(r))));
      k.loop(k.index(0), k.index(full), lanes, [&](Value column) {
        SmallVector<Value> x;
        for (int64_t c = 0; c < lanes; ++c)
          x.push_back(from(k.add(column, k.index(c)), first, lanes));
        square(x);
        for (int64_t r = 0; r < lanes; ++r)
          k.store(x[r], k.address(rows[r], column, element), element);
      });
    });
  auto rest = [&](Value low, Value high, int64_t begin) {
    k.loop(low, high, 1, [&](Value r) {
      Value start = row(r);
      k.loop(k.index(begin), k.index(size), 1, [&](Value column) { one(start, column, r); });
    });
  };
  if (full != size)
    rest(k.index(0), whole, full);
  rest(whole, count, 0);
}

} // namespace llmc::emit
