#include "passes/6-emit/kernel/Dropout.h"

#include "lib/support/Dropout.h"
#include "mlir/IR/BuiltinTypes.h"

#include <array>

using namespace mlir;

namespace llmc::emit {

static Type withElement(Type like, Type element) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? VectorType::get(vector.getShape(), element) : element;
}

namespace {
// Holds a product of 32-bit words as its halves.
struct Product {
  Value high, low;
};
} // namespace

static Value low32(Math m, Value x) {
  return arith::TruncIOp::create(m.b, m.loc, withElement(x.getType(), m.b.getI32Type()), x);
}
static Value high32(Math m, Value x) {
  return low32(m, arith::ShRUIOp::create(m.b, m.loc, x, m.i(32, x)));
}
static Value exclusiveOr(Math m, Value x, Value y) { return arith::XOrIOp::create(m.b, m.loc, x, y); }
// Returns a word as the signed number that a constant attribute of 32 bits takes.
static Value word(Math m, uint32_t value, Value like) { return m.i(static_cast<int32_t>(value), like); }

static Product multiply(Math m, uint32_t factor, Value x) {
  Value wide = arith::ExtUIOp::create(m.b, m.loc, withElement(x.getType(), m.b.getI64Type()), x);
  wide = arith::MulIOp::create(m.b, m.loc, wide, m.i(factor, wide));
  return {high32(m, wide), low32(m, wide)};
}

// Emits support::philox() and returns the first word.
static Value philox(Math m, std::array<Value, 4> c, std::array<Value, 2> key) {
  for (int round = 0; round < support::kPhiloxRounds; ++round) {
    Product left = multiply(m, support::kPhiloxFactors[0], c[0]);
    Product right = multiply(m, support::kPhiloxFactors[1], c[2]);
    c = {exclusiveOr(m, exclusiveOr(m, right.high, c[1]), key[0]), right.low,
         exclusiveOr(m, exclusiveOr(m, left.high, c[3]), key[1]), left.low};
    for (int i = 0; i < 2; ++i)
      key[i] = arith::AddIOp::create(m.b, m.loc, key[i], word(m, support::kPhiloxWeyl[i], key[i]));
  }
  return c[0];
}

// Returns whether the row of a key is left as it is.
static Value keepsAll(Math m, Value key) {
  return arith::CmpIOp::create(m.b, m.loc, arith::CmpIPredicate::slt, key, m.i(0, key));
}

Value DropoutDraw::keeps(Math m) const {
  Value at = low32(m, element);
  Value drawn = philox(m, {at, low32(m, position), low32(m, layer), word(m, static_cast<uint32_t>(place), at)},
                       {low32(m, key), high32(m, key)});
  Value threshold = word(m, support::dropoutThreshold(rate), drawn);
  Value kept = arith::CmpIOp::create(m.b, m.loc, arith::CmpIPredicate::uge, drawn, threshold);
  return arith::OrIOp::create(m.b, m.loc, kept, keepsAll(m, key));
}

Value DropoutDraw::scale(Math m, Type floats) const {
  Value like = arith::ConstantOp::create(m.b, m.loc, m.b.getZeroAttr(floats));
  return m.select(keepsAll(m, key), m.f(1, like), m.f(1 / (1 - rate), like));
}

Value DropoutDraw::factor(Math m, Type floats) const {
  Value zero = arith::ConstantOp::create(m.b, m.loc, m.b.getZeroAttr(floats));
  return m.select(keeps(m), scale(m, floats), zero);
}

} // namespace llmc::emit
