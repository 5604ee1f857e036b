// Emits running sums along a dim. Sums of float32 are carried in float64.
#include "passes/6-emit/kernel/KernelEmitters.h"
#include "passes/6-emit/kernel/Math.h"
#include <functional>
#include <numeric>

using namespace mlir;

namespace llmc::emit {

namespace {

struct CumsumKernel {
  Kernel &k;
  Type element;
  int64_t size, step; // of the dim, and elements from one to the next
  bool exclusive, reverse;
  Value from, to;

  bool isFloat() const { return isa<FloatType>(element); }

  // Adds one element; of an i1 the result is whether the sum is not zero.
  Value add(Value sum, Value x) {
    if (isFloat()) {
      x = arith::ExtFOp::create(k.b, k.loc, sum.getType(), x);
      return arith::AddFOp::create(k.b, k.loc, sum, x);
    }
    if (element.isInteger(1))
      return arith::OrIOp::create(k.b, k.loc, sum, x);
    return arith::AddIOp::create(k.b, k.loc, sum, x);
  }

  // Computes `width` adjacent running sums, the first from element `start` on.
  void scan(Value start, unsigned width) {
    Type wide = isFloat() ? k.b.getF64Type() : element;
    Value zero = arith::ConstantOp::create(k.b, k.loc, k.b.getZeroAttr(typeOf(wide, width)));
    k.loop(k.index(0), k.index(size), 1, zero,
           [&](Value i, ValueRange carried, SmallVectorImpl<Value> &next) {
             Value at = reverse ? k.sub(k.index(size - 1), i) : i;
             Value place = k.add(start, k.mul(at, step));
             Value x = k.load(k.address(from, place, element), element, width);
             next.push_back(add(carried[0], x));
             Value sum = exclusive ? carried[0] : next[0];
             if (isFloat())
               sum = arith::TruncFOp::create(k.b, k.loc, typeOf(computingType(element), width),
                                             sum);
             k.store(sum, k.address(to, place, element), element);
           });
  }
};

} // namespace

// Emits cumsum. Rows are the dims before `dim`; without any, the elements of those after it.
LogicalResult emitCumsum(Kernel &k, LaunchBody body, Operation *op) {
  auto cumsum = cast<graph::CumsumOp>(op);
  auto shape = cast<RankedTensorType>(cumsum.getOperand().getType()).getShape();
  auto product = [](ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
  };
  int64_t outer = product(shape.take_front(cumsum.getDim()));
  int64_t inner = product(shape.drop_front(cumsum.getDim() + 1));
  CumsumKernel kernel{k,
                      getElementTypeOrSelf(cumsum.getOperand()),
                      shape[cumsum.getDim()],
                      inner,
                      cumsum.getExclusive(),
                      cumsum.getReverse(),
                      k.buffer(cast<BlockArgument>(cumsum.getOperand()).getArgNumber()),
                      k.buffer(body.reads)};
  if (outer == 1) {
    k.rows = inner;
    k.vectors(k.begin, k.end, std::nullopt,
              [&](Value i, unsigned width) { kernel.scan(i, width); });
    return success();
  }
  k.rows = outer;
  k.eachRow(k.begin, k.end, [&](Value row) {
    Value start = k.mul(row, kernel.size * inner);
    k.vectors(k.index(0), k.index(inner), inner,
              [&](Value i, unsigned width) { kernel.scan(k.add(start, i), width); });
  });
  return success();
}

} // namespace llmc::emit
