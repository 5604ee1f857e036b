// Matrix products, for machines without the library: register tiles of 4 rows,
// each element summed over k in one order.
#include "passes/6-emit/Equation.h"
#include "passes/6-emit/Families.h"
#include "passes/6-emit/Math.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

namespace {

struct MatmulKernel {
  Kernel &k;
  const MatmulShape &s;
  Math m;
  Type f32;
  Value a, b, c; // moved to the batch

  Value at(Value base, Value x, int64_t xStride, Value y, int64_t yStride) {
    return k.address(base, k.add(k.mul(x, xStride), k.mul(y, yStride)), f32);
  }
  Value spread(Value scalar, unsigned width) {
    if (width == 1)
      return scalar;
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(f32, width), scalar);
  }
  void write(Value sum, Value place) {
    if (s.accumulate)
      sum = m.add(k.load(place, f32, widthOf(sum.getType())), sum);
    k.store(sum, place);
  }

  // `rows` x `vectors` * width elements of C; B and C are contiguous along n,
  // or width is 1.
  void outerTile(Value row, unsigned rows, Value column, unsigned vectors, unsigned width) {
    SmallVector<Value> init(rows * vectors, m.f(0, spread(m.f(0, zero()), width)));
    auto sums = k.loop(k.index(0), k.index(s.k), 1, init,
                       [&](Value kk, ValueRange from, SmallVectorImpl<Value> &next) {
                         SmallVector<Value> right;
                         for (unsigned v = 0; v < vectors; ++v) {
                           Value n = k.add(column, k.index(v * width));
                           right.push_back(k.load(at(b, kk, s.b[1], n, s.b[2]), f32, width));
                         }
                         for (unsigned r = 0; r < rows; ++r) {
                           Value i = k.add(row, k.index(r));
                           Value left = k.load(at(a, i, s.a[1], kk, s.a[2]), f32);
                           left = spread(left, width);
                           for (unsigned v = 0; v < vectors; ++v)
                             next.push_back(m.fma(left, right[v], from[r * vectors + v]));
                         }
                       });
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned v = 0; v < vectors; ++v) {
        Value i = k.add(row, k.index(r)), n = k.add(column, k.index(v * width));
        write(sums[r * vectors + v], at(c, i, s.c[1], n, s.c[2]));
      }
  }

  // `rows` x `columns` elements as dot products: A and B are contiguous along k.
  void dotTile(Value row, unsigned rows, Value column, unsigned columns) {
    auto products = [&](Value kk, unsigned width, ValueRange from) {
      SmallVector<Value> right, next;
      for (unsigned j = 0; j < columns; ++j)
        right.push_back(k.load(at(b, kk, 1, k.add(column, k.index(j)), s.b[2]), f32, width));
      for (unsigned r = 0; r < rows; ++r) {
        Value left = k.load(at(a, k.add(row, k.index(r)), s.a[1], kk, 1), f32, width);
        for (unsigned j = 0; j < columns; ++j)
          next.push_back(from.empty() ? m.mul(left, right[j])
                                      : m.fma(left, right[j], from[r * columns + j]));
      }
      return next;
    };
    auto lanes = [&](Value vector) -> Value {
      if (!isa<VectorType>(vector.getType()))
        return vector;
      return vector::ReductionOp::create(k.b, k.loc, vector::CombiningKind::ADD, vector,
                                         arith::FastMathFlags::reassoc);
    };
    int64_t full = s.k / Kernel::kLanes * Kernel::kLanes;
    SmallVector<Value> init(rows * columns, m.f(0, spread(zero(), Kernel::kLanes)));
    auto sums = k.loop(k.index(0), k.index(full), Kernel::kLanes, init,
                       [&](Value kk, ValueRange from, SmallVectorImpl<Value> &next) {
                         next = products(kk, Kernel::kLanes, from);
                       });
    SmallVector<Value> rest;
    if (s.k > full)
      rest = products(k.index(full), s.k - full, {});
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned j = 0; j < columns; ++j) {
        Value sum = lanes(sums[r * columns + j]);
        if (!rest.empty())
          sum = m.add(sum, lanes(rest[r * columns + j]));
        write(sum, at(c, k.add(row, k.index(r)), s.c[1], k.add(column, k.index(j)), s.c[2]));
      }
  }

  Value zero() { return arith::ConstantOp::create(k.b, k.loc, k.b.getF32FloatAttr(0)); }

  // Columns outside, so that the part of B stays in cache while A streams.
  void columns(Value low, Value high, int64_t from, int64_t to, int64_t step,
               const std::function<void(Value row, unsigned rows, Value column)> &tile) {
    if (from >= to)
      return;
    k.loop(k.index(from), k.index(to), step, [&](Value column) {
      Value middle = k.add(low, k.sub(k.sub(high, low), k.modulo(k.sub(high, low), 4)));
      k.loop(low, middle, 4, [&](Value row) { tile(row, 4, column); });
      k.loop(middle, high, 1, [&](Value row) { tile(row, 1, column); });
    });
  }

  void rows(Value low, Value high) {
    constexpr unsigned lanes = Kernel::kLanes;
    if (s.b[1] == 1 && s.a[2] == 1 && s.k >= lanes && s.b[2] != 1) {
      int64_t pairs = s.n / 2 * 2;
      columns(low, high, 0, pairs, 2,
              [&](Value row, unsigned n, Value column) { dotTile(row, n, column, 2); });
      columns(low, high, pairs, s.n, 1,
              [&](Value row, unsigned n, Value column) { dotTile(row, n, column, 1); });
      return;
    }
    bool contiguous = (s.b[2] == 1 && s.c[2] == 1) || s.n == 1;
    if (!contiguous || s.n == 1)
      return columns(low, high, 0, s.n, 1,
                     [&](Value row, unsigned n, Value column) { outerTile(row, n, column, 1, 1); });
    int64_t wide = s.n / (2 * lanes) * 2 * lanes, full = s.n / lanes * lanes;
    columns(low, high, 0, wide, 2 * lanes,
            [&](Value row, unsigned n, Value column) { outerTile(row, n, column, 2, lanes); });
    columns(low, high, wide, full, lanes,
            [&](Value row, unsigned n, Value column) { outerTile(row, n, column, 1, lanes); });
    columns(low, high, full, s.n, lanes,
            [&](Value row, unsigned n, Value column) { outerTile(row, n, column, 1, s.n - full); });
  }
};

} // namespace

void emitMatmul(Kernel &k, const MatmulShape &shape, unsigned aBuffer, unsigned bBuffer) {
  k.rows = shape.batch * shape.m;
  Type f32 = k.b.getF32Type();
  Value a = k.buffer(aBuffer), b = k.buffer(bBuffer), c = k.buffer(2);
  Math math{k.b, k.loc};
  if (shape.batch == 1) {
    MatmulKernel{k, shape, math, f32, a, b, c}.rows(k.begin, k.end);
    return;
  }
  Value first = k.divFloor(k.begin, shape.m);
  Value last = k.divFloor(k.add(k.end, k.index(shape.m - 1)), shape.m);
  k.loop(first, last, 1, [&](Value batch) {
    Value origin = k.mul(batch, shape.m);
    Value low = k.max(k.sub(k.begin, origin), k.index(0));
    Value high = k.min(k.sub(k.end, origin), k.index(shape.m));
    auto moved = [&](Value base, int64_t stride) {
      return k.address(base, k.mul(batch, stride), f32);
    };
    MatmulKernel{
        k, shape, math, f32, moved(a, shape.a[0]), moved(b, shape.b[0]), moved(c, shape.c[0])}
        .rows(low, high);
  });
}

LogicalResult emitMatmulOp(Kernel &k, LaunchBody body, Operation *op) {
  auto matmul = cast<graph::MatmulOp>(op);
  auto shape = [](Value v) { return cast<RankedTensorType>(v.getType()).getShape(); };
  auto calls = matmulCalls(matmul.getEquation(), shape(matmul.getLhs()), shape(matmul.getRhs()),
                           shape(matmul.getResult()), /*accumulate=*/false);
  if (failed(calls) || calls->calls.size() != 1 || body.reads != 2)
    return op->emitOpError("is no single call; it must be a plan.matmul");
  auto buffer = [](Value v) { return cast<BlockArgument>(v).getArgNumber(); };
  unsigned lhs = buffer(matmul.getLhs()), rhs = buffer(matmul.getRhs());
  emitMatmul(k, calls->shape, calls->swapped ? rhs : lhs, calls->swapped ? lhs : rhs);
  return success();
}

} // namespace llmc::emit
