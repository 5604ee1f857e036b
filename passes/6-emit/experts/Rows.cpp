// Emits the ops that bring rows into the order of their experts, and back.
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/kernel/Math.h"

using namespace mlir;

namespace llmc::emit {

// Bounds the rows of a result whose sources are looked up at once, on the stack.
static constexpr int64_t kMostRows = 2048;

static ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

namespace {

// Copies rows whose places are integers of any size.
struct RowCopy {
  Kernel &k;
  Type element;
  int64_t inner;
  Value places, from, to, count;

  RowCopy(Kernel &kernel, LaunchBody body, Value rows, Value numbers)
      : k(kernel), element(movedType(getElementTypeOrSelf(rows))), inner(shapeOf(rows).back()) {
    auto buffer = [&](Value tensor) { return k.buffer(cast<BlockArgument>(tensor).getArgNumber()); };
    k.rows = cast<RankedTensorType>(numbers.getType()).getNumElements();
    k.extents.push_back(k.rows);
    count = k.scalar(body.block.getNumArguments() - body.reads);
    places = buffer(numbers), from = buffer(rows), to = k.buffer(body.reads);
  }

  Value placeOf(Value i) { return k.load(k.address(places, i, k.b.getI64Type()), k.b.getI64Type()); }
  // Returns whether x is in [0, limit).
  Value isBelow(Value x, Value limit) {
    return arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::ult, x, limit);
  }
  // Writes row `target`: that of choice `source`, of which `share` are one row of the operand, or zeros if it
  // is none of the `count` choices.
  void copy(Value source, Value target, int64_t share = 1) {
    Value isRow = isBelow(source, count);
    source = arith::SelectOp::create(k.b, k.loc, isRow, source, k.index(0));
    source = k.mul(k.divFloor(source, share), inner), target = k.mul(target, inner);
    k.vectors(k.index(0), k.index(inner), inner, [&](Value j, unsigned width) {
      Value x = k.load(k.address(from, k.add(source, j), element), element, width);
      Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(typeOf(element, width)));
      k.store(arith::SelectOp::create(k.b, k.loc, isRow, x, zero), k.address(to, k.add(target, j), element));
    });
  }
};

} // namespace

// Emits pack_rows by rows of the result, so that each is written once: the choices of some rows at a time
// are looked up among all places, of which the last counts.
LogicalResult emitPackRows(Kernel &k, LaunchBody body, Operation *op) {
  auto pack = cast<graph::PackRowsOp>(op);
  RowCopy rows(k, body, pack.getOperand(), pack.getPlaces());
  int64_t share = pack.isShared() ? shapeOf(pack.getPlaces()).back() : 1;
  Value none = k.index(-1);
  if (k.target.threads) { // which have no array in common
    k.eachRow(k.begin, k.end, [&](Value row) {
      auto source = k.loop(k.index(0), rows.count, 1, none,
                           [&](Value i, ValueRange carried, SmallVectorImpl<Value> &next) {
                             Value isHere = arith::CmpIOp::create(k.b, k.loc, arith::CmpIPredicate::eq,
                                                                  rows.placeOf(i), row);
                             next.push_back(arith::SelectOp::create(k.b, k.loc, isHere, i, carried[0]));
                           });
      rows.copy(source[0], row, share);
    });
    return success();
  }
  Type i64 = k.b.getI64Type();
  Value sources = k.stackArray(i64, kMostRows);
  auto at = [&](Value i) { return k.address(sources, i, i64); };
  k.loop(k.begin, k.end, kMostRows, [&](Value first) {
    Value length = k.min(k.index(kMostRows), k.sub(k.end, first));
    k.loop(k.index(0), length, 1, [&](Value i) { k.store(none, at(i)); });
    k.loop(k.index(0), rows.count, 1, [&](Value i) {
      Value place = k.sub(rows.placeOf(i), first);
      k.ifThen(rows.isBelow(place, length), [&] { k.store(i, at(place)); });
    });
    k.loop(k.index(0), length, 1, [&](Value i) { rows.copy(k.load(at(i), i64), k.add(first, i), share); });
  });
  return success();
}

LogicalResult emitUnpackRows(Kernel &k, LaunchBody body, Operation *op) {
  auto unpack = cast<graph::UnpackRowsOp>(op);
  RowCopy rows(k, body, unpack.getOperand(), unpack.getPlaces());
  k.eachRow(k.begin, k.end, [&](Value i) { rows.copy(rows.placeOf(i), i); });
  return success();
}

} // namespace llmc::emit
