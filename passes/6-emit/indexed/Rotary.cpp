// Emits rotary positions: pairs of each head's elements, rotated by the angles of a row.
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/kernel/Math.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace llmc::emit {

namespace {

struct RotaryKernel {
  Kernel &k;
  Type element, cosElement, sinElement; // of x and y, and of the tables
  int64_t half, dim;
  bool inverse;
  Value x, cosines, sines, y;

  using Pair = std::pair<Value, Value>;

  // Returns (a, b) rotated by the angles from element `angle` on.
  Pair turn(Pair pair, Value angle, unsigned width) {
    Math m{k.b, k.loc};
    Value c = k.load(k.address(cosines, angle, cosElement), cosElement, width);
    Value s = k.load(k.address(sines, angle, sinElement), sinElement, width);
    if (inverse)
      s = m.neg(s);
    auto [a, b] = pair;
    return {m.fma(a, c, m.neg(m.mul(b, s))), m.fma(b, c, m.mul(a, s))};
  }

  // Rotates pairs (i, i + half).
  void halves(Value start, Value angle) {
    k.vectors(k.index(0), k.index(half), half, [&](Value i, unsigned width) {
      Value first = k.add(start, i), second = k.add(first, k.index(half));
      Pair pair{k.load(k.address(x, first, element), element, width),
                k.load(k.address(x, second, element), element, width)};
      auto [a, b] = turn(pair, k.add(angle, i), width);
      k.store(a, k.address(y, first, element), element);
      k.store(b, k.address(y, second, element), element);
    });
  }

  // Rotates pairs (2i, 2i + 1): shuffles vectors of pairs apart and together again.
  void interleaved(Value start, Value angle) {
    k.vectors(k.index(0), k.index(half), half, [&](Value i, unsigned width) {
      Value first = k.add(start, k.mul(i, 2));
      Value both = k.load(k.address(x, first, element), element, 2 * width);
      SmallVector<int64_t> even, odd, merged;
      for (int64_t lane = 0; lane < width; ++lane) {
        even.push_back(2 * lane), odd.push_back(2 * lane + 1);
        merged.append({lane, lane + width});
      }
      auto shuffle = [&](Value left, Value right, ArrayRef<int64_t> lanes) -> Value {
        return vector::ShuffleOp::create(k.b, k.loc, left, right, lanes);
      };
      Type vector = VectorType::get({width}, k.b.getF32Type());
      auto widen = [&](Value value) -> Value { // a vector of one, too
        return value.getType() == vector
                   ? value
                   : vector::BroadcastOp::create(k.b, k.loc, vector, value).getResult();
      };
      Pair pair{shuffle(both, both, even), shuffle(both, both, odd)};
      if (width == 1)
        pair = {vector::ExtractOp::create(k.b, k.loc, both, 0),
                vector::ExtractOp::create(k.b, k.loc, both, 1)};
      auto [a, b] = turn(pair, k.add(angle, i), width);
      k.store(shuffle(widen(a), widen(b), merged), k.address(y, first, element), element);
    }, k.widthDividing(half, k.lanes()));
  }

  void rest(Value start) {
    Type moved = movedType(element);
    k.vectors(k.add(start, k.index(2 * half)), k.add(start, k.index(dim)), dim - 2 * half,
              [&](Value i, unsigned width) {
                k.store(k.load(k.address(x, i, moved), moved, width), k.address(y, i, moved));
              });
  }
};

} // namespace

// Emits rotary, whose rows are those of all heads.
LogicalResult emitRotary(Kernel &k, LaunchBody body, Operation *op) {
  auto rotary = cast<graph::RotaryOp>(op);
  auto shapeOf = [](Value v) { return cast<RankedTensorType>(v.getType()).getShape(); };
  auto buffer = [&](Value v) { return k.buffer(cast<BlockArgument>(v).getArgNumber()); };
  auto shape = shapeOf(rotary.getX()), angles = shapeOf(rotary.getCos());
  RotaryKernel kernel{k,
                      getElementTypeOrSelf(rotary.getX()),
                      getElementTypeOrSelf(rotary.getCos()),
                      getElementTypeOrSelf(rotary.getSin()),
                      angles[2],
                      shape[3],
                      rotary.getInverse(),
                      buffer(rotary.getX()),
                      buffer(rotary.getCos()),
                      buffer(rotary.getSin()),
                      k.buffer(body.reads)};
  k.rows = shape[0] * shape[1] * shape[2];
  k.eachRow(k.begin, k.end, [&](Value r) {
    Value row = k.divFloor(r, shape[2]); // of all batches
    if (angles[0] == 1 && shape[0] > 1)
      row = k.modulo(row, shape[1]);
    Value start = k.mul(r, shape[3]), angle = k.mul(row, angles[2]);
    if (rotary.getInterleaved())
      kernel.interleaved(start, angle);
    else
      kernel.halves(start, angle);
    kernel.rest(start);
  });
  return success();
}

} // namespace llmc::emit
