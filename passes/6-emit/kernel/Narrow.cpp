// Converts bfloat16 with integers: the instructions that round to it flush denormals, and without
// them the code generator would call a library. For float16 each target has exact instructions.
#include "passes/6-emit/kernel/Narrow.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/6-emit/kernel/Math.h"

using namespace mlir;

namespace llmc::emit {

static Type like(Value value, Type element) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.clone(element) : element;
}

Value widened(OpBuilder &b, Location loc, Value bits, Type element) {
  Math m{b, loc};
  Type floats = like(bits, b.getF32Type());
  if (element.isF16()) {
    Value half = arith::BitcastOp::create(b, loc, like(bits, element), bits);
    return arith::ExtFOp::create(b, loc, floats, half);
  }
  Value wide = arith::ExtUIOp::create(b, loc, like(bits, b.getI32Type()), bits);
  wide = arith::ShLIOp::create(b, loc, wide, m.i(16, wide));
  return arith::BitcastOp::create(b, loc, floats, wide);
}

// Adds almost half of the last place, and the rest where that place is odd: the sum carries into
// the upper bits exactly where the value rounds up.
static Value roundedToBfloat(OpBuilder &b, Location loc, Value value) {
  Math m{b, loc};
  Value bits = arith::BitcastOp::create(b, loc, like(value, b.getI32Type()), value);
  Value upper = arith::ShRUIOp::create(b, loc, bits, m.i(16, bits));
  Value odd = arith::AndIOp::create(b, loc, upper, m.i(1, bits));
  Value sum = arith::AddIOp::create(b, loc, bits, m.i(0x7fff, bits));
  sum = arith::AddIOp::create(b, loc, sum, odd);
  Value rounded = arith::ShRUIOp::create(b, loc, sum, m.i(16, bits));
  Value quiet = arith::OrIOp::create(b, loc, upper, m.i(0x40, bits));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  return m.select(isNan, quiet, rounded);
}

Value narrowed(OpBuilder &b, Location loc, Value value, Type element) {
  Type bits = like(value, b.getI16Type());
  if (element.isBF16())
    return arith::TruncIOp::create(b, loc, bits, roundedToBfloat(b, loc, value));
  // Keeps the code generator from rounding the operands of `value` in its place: of a sign that comes
  // from a float64 it would call a library.
  value = LLVM::CallIntrinsicOp::create(b, loc, value.getType(),
                                        b.getStringAttr("llvm.arithmetic.fence"), value)
              .getResult(0);
  Value half = arith::TruncFOp::create(b, loc, like(value, element), value);
  return arith::BitcastOp::create(b, loc, bits, half);
}

} // namespace llmc::emit
