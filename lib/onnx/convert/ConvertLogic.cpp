// Converts comparisons, logic, selection, and bitwise ops.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

#include <limits>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

support::Result<std::vector<Value>> twoOperands(NodeAdaptor &call) {
  if (call.size() != 2)
    return error("needs two operands, got ", call.size());
  return broadcastOperands(call, 0);
}

support::Result<std::vector<Value>> twoBooleans(NodeAdaptor &call) {
  if (!call.isBool(0) || !call.isBool(1))
    return error("needs two boolean operands");
  return twoOperands(call);
}

template <class Op>
ConvertResult logical(NodeAdaptor &call) {
  auto values = twoBooleans(call);
  if (!values)
    return values.takeError();
  return single(make<Op>(call, (*values)[0], (*values)[1]));
}

// Builds the exclusive or of booleans.
Value differ(NodeAdaptor &call, Value a, Value b) {
  return call.build.compare(integers(call, a), integers(call, b), graph::Predicate::ne);
}

ConvertResult convertXor(NodeAdaptor &call) {
  auto values = twoBooleans(call);
  if (!values)
    return values.takeError();
  return single(differ(call, (*values)[0], (*values)[1]));
}

template <graph::Predicate predicate>
ConvertResult compare(NodeAdaptor &call) {
  auto values = twoOperands(call);
  if (!values)
    return values.takeError();
  Value a = (*values)[0], b = (*values)[1];
  if (call.isBool(0)) {
    a = integers(call, a);
    b = integers(call, b);
  }
  return single(call.build.compare(a, b, predicate));
}

ConvertResult convertNot(NodeAdaptor &call) {
  if (!call.isBool(0))
    return error("needs a boolean operand");
  return single(make<graph::NotOp>(call, call.value(0)));
}

// Compares x with itself: NaN is the only value that differs.
ConvertResult convertIsNaN(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  Value x = call.value(0);
  return single(call.build.compare(x, x, graph::Predicate::ne));
}

ConvertResult convertIsInf(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  bool up = call.node.integer("detect_positive", 1), down = call.node.integer("detect_negative", 1);
  Value x = call.value(0);
  if (up && down)
    x = make<graph::AbsOp>(call, x);
  double infinity = std::numeric_limits<double>::infinity();
  if (!up && !down) // equal to nothing
    return single(call.build.compare(x, call.scalar(std::numeric_limits<double>::quiet_NaN()),
                                     graph::Predicate::eq));
  return single(call.build.compare(x, call.scalar(up ? infinity : -infinity),
                                   graph::Predicate::eq));
}

// Checks whether a condition is an exporter's test for NaN after a softmax. It is never true, since
// graph.softmax gives zeros where ONNX's gives NaN (a row of -inf).
bool guardsSoftmax(Value condition) {
  auto compare = condition.getDefiningOp<graph::CompareOp>();
  return compare && compare.getPredicate() == graph::Predicate::ne &&
         compare.getLhs() == compare.getRhs() &&
         compare.getLhs().getDefiningOp<graph::SoftmaxOp>();
}

ConvertResult convertWhere(NodeAdaptor &call) {
  if (!call.has(0) || !call.has(1) || !call.has(2))
    return error("needs three operands");
  auto ab = broadcastShapes(call.shape(1), call.shape(2));
  auto shape = ab ? broadcastShapes(call.shape(0), *ab) : std::nullopt;
  if (!shape)
    return error("shapes ", toText(call.shape(0)), ", ", toText(call.shape(1)), ", ",
                 toText(call.shape(2)), " do not broadcast");
  if (!call.isBool(0))
    return error("needs a boolean condition");
  std::optional<size_t> chosen;
  if (const HostTensor *condition = call.compact(0)) {
    if (condition->size() == 1)
      chosen = condition->ints[0] ? 1 : 2;
  } else if (Value v = call.value(0); guardsSoftmax(v)) {
    chosen = 2;
  }
  if (chosen)
    return single(call.build.broadcast(call.value(*chosen), *shape));
  auto values = broadcastOperands(call, 1);
  if (!values)
    return values.takeError();
  return single(call.build.select((*values)[0], (*values)[1], (*values)[2]));
}

//===-- Bits ------------------------------------------------------------------===//

// Builds 2^x of integers, exact to 2^53.
Value powerOfTwo(NodeAdaptor &call, Value x) {
  Value power = make<graph::PowerOp>(call, call.scalar(2), floats(call, x));
  return integers(call, make<graph::RoundOp>(call, power));
}

ConvertResult convertBitShift(NodeAdaptor &call) {
  auto values = twoOperands(call);
  if (!values)
    return values.takeError();
  std::string direction = call.node.text("direction", "");
  if (!call.isInteger(0) || (direction != "LEFT" && direction != "RIGHT"))
    return error("needs integers and a direction LEFT or RIGHT, got '", direction, "'");
  graph::Build &build = call.build;
  Value x = (*values)[0], shift = (*values)[1];
  int bits = bitWidth(call.declared(0));
  // A shift by the width or more clears all bits; negative numbers are U64 shifts of 2^63 or more.
  Value width = call.scalarLike(bits, shift), zero = call.scalarLike(0, shift);
  Value inside = make<graph::AndOp>(call, build.compare(shift, width, graph::Predicate::lt),
                                    build.compare(shift, zero, graph::Predicate::ge));
  Value factor = powerOfTwo(call, build.select(inside, shift, zero));
  // The cast of 2^63 saturates, so a shift by 63 is computed in other ways.
  Value isTop = build.compare(shift, call.scalarLike(63, shift), graph::Predicate::eq);
  Value top = call.scalarLike(-0x1p63, x), one = call.scalarLike(1, x), two = call.scalarLike(2, x);
  if (direction == "LEFT") {
    Value moved = build.mul(x, factor);
    if (bits == 64) { // only the lowest bit stays
      Value isOdd = build.compare(make<graph::RemOp>(call, x, two), zero, graph::Predicate::ne);
      moved = build.select(isTop, build.select(isOdd, top, zero), moved);
    }
    return single(build.select(inside, wrapToSmall(call, moved, call.declared(0)), zero));
  }
  if (bits == 64) // the quotient by -2^63 is 0 too
    factor = build.select(isTop, top, factor);
  Value negative = build.compare(x, zero, graph::Predicate::lt);
  if (call.declared(0) == Element::U64) {
    // Shift a number of 2^63 or more by one first, which clears the sign: (x - 2^63) / 2 + 2^62.
    Value half = build.add(build.div(build.sub(x, top), two), call.scalarLike(0x1p62, x));
    Value shifts = build.compare(shift, zero, graph::Predicate::gt);
    Value isLarge = make<graph::AndOp>(call, negative, make<graph::AndOp>(call, inside, shifts));
    Value rest = powerOfTwo(call, build.select(isLarge, build.sub(shift, one), zero));
    Value large = build.div(half, rest), small = build.div(x, factor);
    return single(build.select(isLarge, large, build.select(inside, small, zero)));
  }
  // Round toward negative infinity: divide -1 - x, which is not negative where x is.
  Value minus = call.scalarLike(-1, x);
  Value quotient = build.div(build.select(negative, build.sub(minus, x), x), factor);
  Value moved = build.select(negative, build.sub(minus, quotient), quotient);
  return single(build.select(inside, moved, build.select(negative, minus, zero)));
}

ConvertResult convertBitwiseNot(NodeAdaptor &call) {
  if (!call.isInteger(0))
    return error("needs integers");
  Value x = call.value(0);
  Value inverse = call.build.sub(call.scalarLike(-1, x), x);
  return single(wrapToSmall(call, inverse, call.declared(0)));
}

// Builds the bitwise and of nonnegative numbers: the sum of their common bits, where bit k is
// rem(div(x, 2^k), 2).
Value commonBits(NodeAdaptor &call, Value a, Value b, int bits) {
  graph::Build &build = call.build;
  Value sum, two = call.scalarLike(2, a);
  for (int k = 0; k < bits; ++k) {
    Value weight = call.scalarLike(double(int64_t(1) << k), a);
    Value bitA = make<graph::RemOp>(call, build.div(a, weight), two);
    Value bitB = make<graph::RemOp>(call, build.div(b, weight), two);
    Value part = build.mul(build.mul(bitA, bitB), weight);
    sum = sum ? build.add(sum, part) : part;
  }
  return sum;
}

// Builds a bitwise op on U64, which is held as the i64 of its bits: the sign is one of them.
ConvertResult wideBitwise(NodeAdaptor &call, Value a, Value b) {
  graph::Build &build = call.build;
  Value zero = call.scalarLike(0, a);
  Value top = call.scalarLike(double(std::numeric_limits<int64_t>::min()), a);
  auto isNegative = [&](Value x) { return build.compare(x, zero, graph::Predicate::lt); };
  auto rest = [&](Value x) { return build.select(isNegative(x), build.sub(x, top), x); };
  Value signA = integers(call, isNegative(a)), signB = integers(call, isNegative(b));
  a = rest(a), b = rest(b);
  Value out = commonBits(call, a, b, 63), sign = build.mul(signA, signB);
  if (call.node.op() != "BitwiseAnd") {
    int64_t common = call.node.op() == "BitwiseXor" ? 2 : 1;
    // Since a + b may overflow, add the bits that only one operand has.
    Value onlyA = build.sub(a, out), onlyB = build.sub(b, out);
    out = build.add(common == 2 ? onlyA : a, onlyB);
    sign = build.sub(build.add(signA, signB), build.mul(call.scalarLike(common, sign), sign));
  }
  Value isSet = build.compare(sign, zero, graph::Predicate::gt);
  return single(build.select(isSet, build.add(out, top), out));
}

ConvertResult convertBitwise(NodeAdaptor &call) {
  auto values = twoOperands(call);
  if (!values)
    return values.takeError();
  Element element = call.isInteger(0) ? call.declared(0) : Element::Bool;
  if (element == Element::U64)
    return wideBitwise(call, (*values)[0], (*values)[1]);
  int bits = bitWidth(element);
  bool isSigned = wrapTo(element, int64_t(1) << (bitWidth(element) - 1)) < 0;
  if (!call.isInteger(0) || (isSigned && bits > 32))
    return error("needs integers of at most 32 bits, or unsigned ones, that are computed");
  graph::Build &build = call.build;
  // Map both to nonnegative numbers with the same bits.
  Value a = (*values)[0], b = (*values)[1];
  if (isSigned) {
    a = wrapNegativeIndices(call, a, int64_t(1) << bits);
    b = wrapNegativeIndices(call, b, int64_t(1) << bits);
  }
  Value both = commonBits(call, a, b, bits);
  Value out = both;
  if (call.node.op() != "BitwiseAnd") {
    Value sum = build.add(a, b);
    out = build.sub(sum, both);
    if (call.node.op() == "BitwiseXor")
      out = build.sub(out, both);
  }
  if (!isSigned)
    return single(out);
  Value limit = call.scalarLike(double(int64_t(1) << (bits - 1)), out);
  Value wrapped = build.sub(out, call.scalarLike(double(int64_t(1) << bits), out));
  return single(build.select(build.compare(out, limit, graph::Predicate::ge), wrapped, out));
}

} // namespace

ConvertFunction llmc::onnximport::findLogicConverter(llvm::StringRef op) {
  using graph::Predicate;
  static const llvm::StringMap<ConvertFunction> table = {
      {"And", logical<graph::AndOp>},
      {"Or", logical<graph::OrOp>},
      {"Xor", convertXor},
      {"Not", convertNot},
      {"Equal", compare<Predicate::eq>},
      {"Less", compare<Predicate::lt>},
      {"LessOrEqual", compare<Predicate::le>},
      {"Greater", compare<Predicate::gt>},
      {"GreaterOrEqual", compare<Predicate::ge>},
      {"IsNaN", convertIsNaN},
      {"IsInf", convertIsInf},
      {"Where", convertWhere},
      {"BitShift", convertBitShift},
      {"BitwiseNot", convertBitwiseNot},
      {"BitwiseAnd", convertBitwise},
      {"BitwiseOr", convertBitwise},
      {"BitwiseXor", convertBitwise},
  };
  return table.lookup(op);
}
