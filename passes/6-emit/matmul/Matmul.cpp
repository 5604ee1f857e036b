// Emits matrix products for machines without the library: register tiles of 4 rows, each element
// summed over k in one order. Sizes and strides are scalars of the call, so that one kernel of
// each form serves a whole model.
#include "passes/6-emit/matmul/Equation.h"
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/kernel/Math.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

MatmulForm MatmulShape::form() const {
  bool alongN = n == 1 || (b[2] == 1 && c[2] == 1);
  bool alongK = k == 1 || (a[2] == 1 && b[1] == 1);
  if (alongK && (n == 1 || !alongN))
    return MatmulForm::Dots;
  return alongN ? MatmulForm::Columns : MatmulForm::Strided;
}

SmallVector<int64_t> MatmulShape::scalars() const {
  SmallVector<int64_t> values{batch, m, n, k};
  for (auto &strides : {a, b, c})
    values.append(strides.begin(), strides.end());
  return values;
}

namespace {

// Holds the shape as values of the kernel; a stride that the form fixes is a constant.
struct Sizes {
  Value batch, m, n, k;
  std::array<Value, 3> a, b, c;

  Sizes(Kernel &kernel, MatmulForm form, unsigned first) {
    unsigned next = first;
    for (Value *size : {&batch, &m, &n, &k})
      *size = kernel.scalar(next++);
    for (auto *strides : {&a, &b, &c})
      for (Value &stride : *strides)
        stride = kernel.scalar(next++);
    if (form == MatmulForm::Columns)
      b[2] = c[2] = kernel.index(1);
    if (form == MatmulForm::Dots)
      a[2] = b[1] = kernel.index(1);
  }
};

struct MatmulKernel {
  Kernel &k;
  const Sizes &s;
  bool accumulate;
  Math m;
  MatmulTypes types;
  Value a, b, c; // moved to the batch
  Type f32 = k.b.getF32Type();

  const unsigned lanes = k.lanes();

  Value at(Value base, Value x, Value xStride, Value y, Value yStride, Type element) {
    return k.address(base, k.add(k.mul(x, xStride), k.mul(y, yStride)), element);
  }
  Value atA(Value i, Value kk) { return at(a, i, s.a[1], kk, s.a[2], types.operands); }
  Value atB(Value kk, Value n) { return at(b, kk, s.b[1], n, s.b[2], types.operands); }
  Value atC(Value i, Value n) { return at(c, i, s.c[1], n, s.c[2], types.result); }
  Value spread(Value scalar, unsigned width) {
    if (width == 1)
      return scalar;
    return vector::BroadcastOp::create(k.b, k.loc, typeOf(f32, width), scalar);
  }
  Value zeros(unsigned width) {
    return arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(typeOf(f32, width)));
  }

  // Returns the mask of the lanes below `count`.
  Value firstLanes(Value count) {
    auto type = VectorType::get({lanes}, k.b.getI32Type());
    auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
    Value lane = arith::ConstantOp::create(
        k.b, k.loc, DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
    Value narrow = arith::TruncIOp::create(k.b, k.loc, k.b.getI32Type(), count);
    Value limit = vector::BroadcastOp::create(k.b, k.loc, type, narrow);
    return arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::slt, lane, limit);
  }
  // Loads the lanes that `mask` has, if there is one; the others are zero.
  Value load(Value place, Type element, unsigned width, Value mask) {
    return mask ? k.loadMasked(place, element, mask) : k.load(place, element, width);
  }
  void write(Value sum, Value place, Value mask = {}) {
    if (accumulate)
      sum = m.add(load(place, types.result, widthOf(sum.getType()), mask), sum);
    if (mask)
      k.storeMasked(sum, place, mask, types.result);
    else
      k.store(sum, place, types.result);
  }

  // Computes `rows` x `vectors` * width elements of C; B and C are contiguous along n, or width
  // is 1.
  void outerTile(Value row, unsigned rows, Value column, unsigned vectors, unsigned width,
                 Value mask = {}) {
    SmallVector<Value> init(rows * vectors, zeros(width));
    auto sums = k.loop(k.index(0), s.k, 1, init,
                       [&](Value kk, ValueRange from, SmallVectorImpl<Value> &next) {
                         SmallVector<Value> right;
                         for (unsigned v = 0; v < vectors; ++v) {
                           Value n = k.add(column, k.index(v * width));
                           right.push_back(load(atB(kk, n), types.operands, width, mask));
                         }
                         for (unsigned r = 0; r < rows; ++r) {
                           Value i = k.add(row, k.index(r));
                           Value left = k.load(atA(i, kk), types.operands);
                           left = spread(left, width);
                           for (unsigned v = 0; v < vectors; ++v)
                             next.push_back(m.fma(left, right[v], from[r * vectors + v]));
                         }
                       });
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned v = 0; v < vectors; ++v) {
        Value i = k.add(row, k.index(r)), n = k.add(column, k.index(v * width));
        write(sums[r * vectors + v], atC(i, n), mask);
      }
  }

  // Computes `rows` x `columns` elements as dot products: A and B are contiguous along k.
  void dotTile(Value row, unsigned rows, Value column, unsigned columns) {
    auto products = [&](Value kk, ValueRange from, Value mask) {
      SmallVector<Value> right, next;
      for (unsigned j = 0; j < columns; ++j)
        right.push_back(load(atB(kk, k.add(column, k.index(j))), types.operands, lanes, mask));
      for (unsigned r = 0; r < rows; ++r) {
        Value left = load(atA(k.add(row, k.index(r)), kk), types.operands, lanes, mask);
        for (unsigned j = 0; j < columns; ++j)
          next.push_back(m.fma(left, right[j], from[r * columns + j]));
      }
      return next;
    };
    Value rest = k.modulo(s.k, lanes), full = k.sub(s.k, rest);
    SmallVector<Value> init(rows * columns, zeros(lanes));
    auto sums = k.loop(k.index(0), full, lanes, init,
                       [&](Value kk, ValueRange from, SmallVectorImpl<Value> &next) {
                         next = products(kk, from, {});
                       });
    // This loop runs once, or not at all.
    sums = k.loop(full, s.k, lanes, sums,
                  [&](Value kk, ValueRange from, SmallVectorImpl<Value> &next) {
                    next = products(kk, from, firstLanes(rest));
                  });
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned j = 0; j < columns; ++j) {
        Value sum =
            vector::ReductionOp::create(k.b, k.loc, vector::CombiningKind::ADD,
                                        sums[r * columns + j], arith::FastMathFlags::reassoc);
        write(sum, atC(k.add(row, k.index(r)), k.add(column, k.index(j))));
      }
  }

  // Emits tiles with the loop over columns outside, so that the part of B stays in cache while A
  // streams.
  void columns(Value low, Value high, Value from, Value to, int64_t step,
               const std::function<void(Value row, unsigned rows, Value column)> &tile) {
    k.loop(from, to, step, [&](Value column) {
      Value middle = k.add(low, k.sub(k.sub(high, low), k.modulo(k.sub(high, low), 4)));
      k.loop(low, middle, 4, [&](Value row) { tile(row, 4, column); });
      k.loop(middle, high, 1, [&](Value row) { tile(row, 1, column); });
    });
  }

  void rows(MatmulForm form, Value low, Value high) {
    Value zero = k.index(0);
    auto whole = [&](int64_t step) { return k.sub(s.n, k.modulo(s.n, step)); };
    switch (form) {
    case MatmulForm::Dots:
      columns(low, high, zero, whole(2), 2,
              [&](Value row, unsigned n, Value column) { dotTile(row, n, column, 2); });
      return columns(low, high, whole(2), s.n, 1,
                     [&](Value row, unsigned n, Value column) { dotTile(row, n, column, 1); });
    case MatmulForm::Strided:
      return columns(low, high, zero, s.n, 1,
                     [&](Value row, unsigned n, Value column) { outerTile(row, n, column, 1, 1); });
    case MatmulForm::Columns:
      Value wide = whole(2 * lanes), full = whole(lanes);
      columns(low, high, zero, wide, 2 * lanes,
              [&](Value row, unsigned n, Value column) { outerTile(row, n, column, 2, lanes); });
      columns(low, high, wide, full, lanes,
              [&](Value row, unsigned n, Value column) { outerTile(row, n, column, 1, lanes); });
      Value mask = firstLanes(k.sub(s.n, full));
      return columns(low, high, full, s.n, lanes, [&](Value row, unsigned n, Value column) {
        outerTile(row, n, column, 1, lanes, mask);
      });
    }
  }
};

} // namespace

bool MatmulTypes::areMultiplied() const {
  bool isFloat = operands.isF32() || isNarrow(operands);
  return isFloat && (result == operands || result.isF32());
}

void emitMatmul(Kernel &k, MatmulForm form, bool accumulate, MatmulTypes types, unsigned aBuffer,
                unsigned bBuffer, unsigned firstScalar) {
  if (k.target.threads)
    return k.leaveToLibrary();
  Value a = k.buffer(aBuffer), b = k.buffer(bBuffer), c = k.buffer(2);
  Sizes s(k, form, firstScalar);
  Value first = k.divFloor(k.begin, s.m);
  Value last = k.divFloor(k.add(k.end, k.sub(s.m, k.index(1))), s.m);
  k.loop(first, last, 1, [&](Value batch) {
    Value origin = k.mul(batch, s.m);
    Value low = k.max(k.sub(k.begin, origin), k.index(0));
    Value high = k.min(k.sub(k.end, origin), s.m);
    auto moved = [&](Value base, Value stride, Type element) {
      return k.address(base, k.mul(batch, stride), element);
    };
    MatmulKernel{k,
                 s,
                 accumulate,
                 Math{k.b, k.loc},
                 types,
                 moved(a, s.a[0], types.operands),
                 moved(b, s.b[0], types.operands),
                 moved(c, s.c[0], types.result)}
        .rows(form, low, high);
  });
}

LogicalResult emitMatmulOp(Kernel &k, LaunchBody body, Operation *op) {
  auto matmul = cast<graph::MatmulOp>(op);
  auto shape = [](Value v) { return cast<RankedTensorType>(v.getType()).getShape(); };
  auto calls = matmulCalls(matmul.getEquation(), shape(matmul.getLhs()), shape(matmul.getRhs()),
                           shape(matmul.getResult()), /*accumulate=*/false);
  if (failed(calls) || calls->calls.size() != 1 || body.reads != 2)
    return op->emitOpError("is no single call; it must be a plan.matmul");
  MatmulTypes types{getElementTypeOrSelf(matmul.getLhs()),
                    getElementTypeOrSelf(matmul.getResult())};
  if (!types.areMultiplied())
    return op->emitOpError("has a kernel if it multiplies f32, bf16 or f16 to that type or f32");
  auto buffer = [](Value v) { return cast<BlockArgument>(v).getArgNumber(); };
  unsigned lhs = buffer(matmul.getLhs()), rhs = buffer(matmul.getRhs());
  const MatmulShape &s = calls->shape;
  k.rows = s.batch * s.m;
  k.extents.assign(s.scalars());
  emitMatmul(k, s.form(), s.accumulate, types, calls->swapped ? rhs : lhs,
             calls->swapped ? lhs : rhs, body.block.getNumArguments() - body.reads);
  return success();
}

} // namespace llmc::emit
