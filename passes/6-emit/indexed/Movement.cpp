// Emits movement that is no affine access: concat, pad, and reshapes that are alone. (Any group
// reads transposes, slices and broadcasts in place.)
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/kernel/Math.h"

using namespace mlir;

namespace llmc::emit {

static ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}
static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t size : sizes)
    n *= size;
  return n;
}
static Value readBuffer(Kernel &k, Value tensor) {
  return k.buffer(cast<BlockArgument>(tensor).getArgNumber());
}

// Copies elements [low, high) of `from` to those of `to` that lie `shift` further.
static void copyRange(Kernel &k, Value from, Value to, Value low, Value high,
                      std::optional<int64_t> size, Value shift, Type element) {
  k.vectors(low, high, size, [&](Value i, unsigned width) {
    Value x = k.load(k.address(from, i, element), element, width);
    k.store(x, k.address(to, k.add(i, shift), element));
  });
}

LogicalResult emitReshape(Kernel &k, LaunchBody body, Operation *op) {
  k.rows = product(shapeOf(op->getOperand(0)));
  copyRange(k, readBuffer(k, op->getOperand(0)), k.buffer(body.reads), k.begin, k.end, std::nullopt,
            k.index(0), movedType(getElementTypeOrSelf(op->getOperand(0))));
  return success();
}

// Emits concat. Rows are the dims before `dim`; without any, the elements of the result.
LogicalResult emitConcat(Kernel &k, LaunchBody body, Operation *op) {
  auto concat = cast<graph::ConcatOp>(op);
  auto shape = shapeOf(concat.getResult());
  Type element = movedType(getElementTypeOrSelf(concat.getResult()));
  int64_t outer = product(shape.take_front(concat.getDim()));
  int64_t whole = product(shape.drop_front(concat.getDim()));
  Value to = k.buffer(body.reads);
  for (Value input : concat.getInputs())
    readBuffer(k, input);
  int64_t place = 0;
  if (outer == 1) {
    k.rows = whole;
    for (Value input : concat.getInputs()) {
      int64_t size = product(shapeOf(input));
      Value low = k.max(k.begin, k.index(place)), high = k.min(k.end, k.index(place + size));
      Value shift = k.index(place);
      low = k.sub(low, shift);
      high = k.max(low, k.sub(high, shift)); // not before low: the length is not negative
      copyRange(k, readBuffer(k, input), to, low, high, std::nullopt, shift, element);
      place += size;
    }
    return success();
  }
  k.rows = outer;
  k.eachRow(k.begin, k.end, [&](Value row) {
    int64_t place = 0;
    for (Value input : concat.getInputs()) {
      int64_t size = product(shapeOf(input)) / outer;
      Value low = k.mul(row, size);
      Value shift = k.sub(k.add(k.mul(row, whole), k.index(place)), low);
      copyRange(k, readBuffer(k, input), to, low, k.add(low, k.index(size)), size, shift, element);
      place += size;
    }
  });
  return success();
}

// Emits pad: zeros, then the elements at low + i * (interior + 1). Rows are those of the
// result's first dim.
LogicalResult emitPad(Kernel &k, LaunchBody body, Operation *op) {
  auto pad = cast<graph::PadOp>(op);
  SmallVector<int64_t> from(shapeOf(pad.getOperand())), to(shapeOf(pad.getResult()));
  SmallVector<int64_t> low(pad.getLow()), interior(pad.getInterior());
  if (to.empty()) {
    from.push_back(1), to.push_back(1), low.push_back(0), interior.push_back(0);
  }
  if (llvm::any_of(low, [](int64_t n) { return n < 0; }) ||
      llvm::any_of(pad.getHigh(), [](int64_t n) { return n < 0; }))
    return op->emitOpError("a kernel pads by zero or more elements");
  Type element = movedType(getElementTypeOrSelf(pad.getResult()));
  k.rows = to[0];
  Value source = readBuffer(k, pad.getOperand()), target = k.buffer(body.reads);
  int64_t rowSize = product(ArrayRef(to).drop_front());
  k.vectors(k.mul(k.begin, rowSize), k.mul(k.end, rowSize), std::nullopt,
            [&](Value i, unsigned width) {
              Type type = typeOf(element, width);
              Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(type));
              k.store(zero, k.address(target, i, element));
            });
  // Returns the first source row at or after `row` of the result: ceil((row - low) / step), in
  // [0, size].
  int64_t step = interior[0] + 1;
  auto firstAt = [&](Value row) {
    Value distance = k.max(k.add(k.sub(row, k.index(low[0])), k.index(step - 1)), k.index(0));
    return k.min(k.divFloor(distance, step), k.index(from[0]));
  };
  std::function<void(unsigned, Value, Value)> nest = [&](unsigned dim, Value in, Value out) {
    if (dim == from.size()) {
      k.store(k.load(k.address(source, in, element), element), k.address(target, out, element));
      return;
    }
    bool isLast = dim + 1 == from.size();
    auto index = [&](Value i, Value &inner, Value &outer) {
      inner = k.add(k.mul(in, from[dim]), i);
      Value place = k.add(k.mul(i, interior[dim] + 1), k.index(low[dim]));
      outer = k.add(k.mul(out, to[dim]), place);
    };
    Value first = dim ? k.index(0) : firstAt(k.begin);
    Value last = dim ? k.index(from[dim]) : firstAt(k.end);
    if (isLast && interior[dim] == 0) {
      k.vectors(first, last, dim ? std::optional<int64_t>(from[dim]) : std::nullopt,
                [&](Value i, unsigned width) {
                  Value inner, outer;
                  index(i, inner, outer);
                  k.store(k.load(k.address(source, inner, element), element, width),
                          k.address(target, outer, element));
                });
      return;
    }
    k.loop(first, last, 1, [&](Value i) {
      Value inner, outer;
      index(i, inner, outer);
      nest(dim + 1, inner, outer);
    }, isLast ? Kernel::LoopKind::Elements : Kernel::LoopKind::InOrder);
  };
  nest(0, k.index(0), k.index(0));
  return success();
}

} // namespace llmc::emit
