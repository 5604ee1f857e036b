// Evaluates elementwise ops on constants.
#include "lib/onnx/fold/Fold.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;

FoldFunction llmc::onnximport::findFold(llvm::StringRef op) {
  for (auto find : {findArithmeticFold, findMovementFold, findIndexFold, findReduceFold})
    if (FoldFunction fold = find(op))
      return fold;
  return nullptr;
}

FoldFunction llmc::onnximport::findFold(const Node &node) {
  std::string op = node.qualifiedOp();
  bool rare = node.integer("batch_dims", 0) != 0 || node.text("reduction", "none") != "none" ||
              (op == "Cast" && elementOfCast(node) == Element::F8E8M0);
  return rare ? nullptr : findFold(op);
}

namespace {

struct Binary {
  double (*floats)(double, double);
  // Computes the op on integers, null if it is refused for them. A divisor is not 0.
  int64_t (*ints)(int64_t, int64_t);
  bool compares = false, divides = false;
};

int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }
int64_t divide(int64_t a, int64_t b) { return b == -1 ? wrap(0 - uint64_t(a)) : a / b; }
// Computes ONNX's Mod: the result has the sign of the divisor.
int64_t modulo(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return r && (r < 0) != (b < 0) ? r + b : r;
}
// Computes ONNX's Mod with fmod = 1: the result has the sign of the dividend.
int64_t remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
int64_t power(int64_t a, int64_t b) {
  double value = std::pow(double(a), double(b));
  return std::fabs(value) < 9.2e18 ? static_cast<int64_t>(value) : 0;
}

const llvm::StringMap<Binary> &binaries() {
  using D = double;
  using I = int64_t;
  static const llvm::StringMap<Binary> table = {
      {"Add", {[](D a, D b) { return a + b; }, [](I a, I b) { return wrap(uint64_t(a) + uint64_t(b)); }}},
      {"Sub", {[](D a, D b) { return a - b; }, [](I a, I b) { return wrap(uint64_t(a) - uint64_t(b)); }}},
      {"Mul", {[](D a, D b) { return a * b; }, [](I a, I b) { return wrap(uint64_t(a) * uint64_t(b)); }}},
      {"Div", {[](D a, D b) { return a / b; }, divide, false, true}},
      {"Mod", {[](D a, D b) { return std::fmod(a, b); }, modulo, false, true}},
      {"Pow", {[](D a, D b) { return std::pow(a, b); }, power}},
      // A NaN among the operands is the result.
      {"Min", {[](D a, D b) { return a < b || a != a ? a : b; }, [](I a, I b) { return a < b ? a : b; }}},
      {"Max", {[](D a, D b) { return a > b || a != a ? a : b; }, [](I a, I b) { return a > b ? a : b; }}},
      {"Sum", {[](D a, D b) { return a + b; }, [](I a, I b) { return wrap(uint64_t(a) + uint64_t(b)); }}},
      {"Equal", {[](D a, D b) { return D(a == b); }, [](I a, I b) { return I(a == b); }, true}},
      {"Less", {[](D a, D b) { return D(a < b); }, [](I a, I b) { return I(a < b); }, true}},
      {"LessOrEqual", {[](D a, D b) { return D(a <= b); }, [](I a, I b) { return I(a <= b); }, true}},
      {"Greater", {[](D a, D b) { return D(a > b); }, [](I a, I b) { return I(a > b); }, true}},
      {"GreaterOrEqual", {[](D a, D b) { return D(a >= b); }, [](I a, I b) { return I(a >= b); }, true}},
      {"And", {nullptr, [](I a, I b) { return I(a && b); }, true}},
      {"Or", {nullptr, [](I a, I b) { return I(a || b); }, true}},
      {"Xor", {nullptr, [](I a, I b) { return I(!a != !b); }, true}},
      {"BitwiseAnd", {nullptr, [](I a, I b) { return a & b; }}},
      {"BitwiseOr", {nullptr, [](I a, I b) { return a | b; }}},
  };
  return table;
}

struct Unary {
  double (*floats)(double);
  int64_t (*ints)(int64_t) = nullptr; // null if integers are computed as floats
};

const llvm::StringMap<Unary> &unaries() {
  using D = double;
  using I = int64_t;
  static const llvm::StringMap<Unary> table = {
      {"Neg", {[](D x) { return -x; }, [](I x) { return wrap(0 - uint64_t(x)); }}},
      {"Abs", {[](D x) { return std::fabs(x); },
               [](I x) { return x < 0 ? wrap(0 - uint64_t(x)) : x; }}},
      {"Sqrt", {[](D x) { return std::sqrt(x); }}},
      {"Reciprocal", {[](D x) { return 1 / x; }}},
      {"Exp", {[](D x) { return std::exp(x); }}},
      {"Log", {[](D x) { return std::log(x); }}},
      {"Sin", {[](D x) { return std::sin(x); }}},
      {"Cos", {[](D x) { return std::cos(x); }}},
      {"Tanh", {[](D x) { return std::tanh(x); }}},
      {"Erf", {[](D x) { return std::erf(x); }}},
      {"Sigmoid", {[](D x) { return 1 / (1 + std::exp(-x)); }}},
      {"Relu", {[](D x) { return x > 0 ? x : 0; }, [](I x) { return x > 0 ? x : 0; }}},
      {"Floor", {[](D x) { return std::floor(x); }}},
      {"Ceil", {[](D x) { return std::ceil(x); }}},
      {"Round", {[](D x) { return std::nearbyint(x); }}},
      {"Sign", {[](D x) { return D((x > 0) - (x < 0)); }}},
  };
  return table;
}

FoldResult foldPair(const Binary &rule, const HostTensor &a, const HostTensor &b) {
  auto shape = broadcastShapes(a.shape, b.shape);
  if (!shape)
    return error("shapes ", toText(a.shape), " and ", toText(b.shape), " do not broadcast");
  if (auto s = checkHostSize(*shape); !s)
    return s.takeError();
  bool floats = a.isFloat() || b.isFloat();
  if (floats ? !rule.floats : !rule.ints)
    return error("is not defined for these element types");
  HostTensor out(rule.compares ? Element::Bool : a.element, *shape);
  bool zero = false;
  forEachElement(*shape,
                 {broadcastStrides(a.shape, *shape), broadcastStrides(b.shape, *shape)},
                 [&](int64_t n, llvm::ArrayRef<int64_t> at) {
                   if (floats)
                     out.set(n, rule.floats(a.number(at[0]), b.number(at[1])));
                   else if (rule.divides && b.ints[at[1]] == 0)
                     zero = true;
                   else
                     out.set(n, rule.ints(a.ints[at[0]], b.ints[at[1]]));
                 });
  if (zero)
    return error("division by zero in a constant");
  return std::vector<HostTensor>{std::move(out)};
}

FoldResult foldBinary(const FoldInput &in) {
  Binary rule = binaries().find(in.node.op())->second;
  if (in.node.op() == "Mod" && in.node.integer("fmod", 0))
    rule.ints = remainder;
  if (!in.get(0) || (in.size() < 2 && in.node.op() != "Min" && in.node.op() != "Max" &&
                     in.node.op() != "Sum"))
    return error("needs two operands");
  std::vector<HostTensor> out;
  for (size_t i = 1; i < in.size(); ++i) {
    if (!in.get(i))
      return error("operand ", i, " is missing");
    FoldResult next = foldPair(rule, out.empty() ? *in.get(0) : out[0], *in.get(i));
    if (!next)
      return next;
    out = std::move(*next);
  }
  return out.empty() ? std::vector<HostTensor>{*in.get(0)} : std::move(out);
}

FoldResult foldUnary(const FoldInput &in) {
  const Unary &rule = unaries().find(in.node.op())->second;
  if (!in.get(0))
    return error("needs an operand");
  const HostTensor &a = *in.get(0);
  HostTensor out(a.element, a.shape);
  bool isSigned = !a.isFloat() && a.element != Element::U64; // held as the int64 of its bits
  for (int64_t i = 0, n = out.size(); i < n; ++i)
    if (isSigned && rule.ints)
      out.set(i, rule.ints(a.ints[i]));
    else
      out.set(i, rule.floats(a.number(i)));
  return std::vector<HostTensor>{std::move(out)};
}

FoldResult foldLogicalUnary(const FoldInput &in) {
  if (!in.get(0))
    return error("needs an operand");
  const HostTensor &a = *in.get(0);
  HostTensor out(Element::Bool, a.shape);
  bool negates = in.node.op() == "Not";
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    double x = a.number(i);
    out.ints[i] = negates ? x == 0 : std::isnan(x);
  }
  return std::vector<HostTensor>{std::move(out)};
}

FoldResult foldCast(const FoldInput &in) {
  if (!in.get(0))
    return error("needs an operand");
  std::optional<Element> element = in.get(0)->element;
  if (in.node.op() == "CastLike")
    element = in.get(1) ? std::optional(in.get(1)->element) : std::nullopt;
  else
    element = elementOfCast(in.node);
  if (!element)
    return error("to a type that is not supported: types of numbers are");
  Overflow overflow = in.node.integer("saturate", 1) ? Overflow::Saturate : Overflow::Special;
  const HostTensor &a = *in.get(0);
  HostTensor out(*element, a.shape);
  for (int64_t i = 0, n = out.size(); i < n; ++i) {
    if (a.isFloat() && out.isFloat())
      out.floats[i] = roundTo(*element, a.floats[i], overflow);
    else if (a.isFloat())
      out.set(i, a.floats[i]);
    else
      out.set(i, a.ints[i]);
  }
  return std::vector<HostTensor>{std::move(out)};
}

FoldResult foldWhere(const FoldInput &in) {
  if (!in.get(0) || !in.get(1) || !in.get(2))
    return error("needs three operands");
  const HostTensor &c = *in.get(0), &a = *in.get(1), &b = *in.get(2);
  auto ab = broadcastShapes(a.shape, b.shape);
  auto shape = ab ? broadcastShapes(c.shape, *ab) : std::nullopt;
  if (!shape)
    return error("shapes ", toText(c.shape), ", ", toText(a.shape), ", ", toText(b.shape),
                 " do not broadcast");
  if (auto s = checkHostSize(*shape); !s)
    return s.takeError();
  HostTensor out(a.element, *shape);
  forEachElement(*shape,
                 {broadcastStrides(c.shape, *shape), broadcastStrides(a.shape, *shape),
                  broadcastStrides(b.shape, *shape)},
                 [&](int64_t n, llvm::ArrayRef<int64_t> at) {
                   bool first = c.number(at[0]) != 0;
                   const HostTensor &from = first ? a : b;
                   int64_t i = first ? at[1] : at[2];
                   if (from.isFloat())
                     out.set(n, from.floats[i]);
                   else
                     out.set(n, from.ints[i]);
                 });
  return std::vector<HostTensor>{std::move(out)};
}

FoldResult foldClip(const FoldInput &in) {
  if (!in.get(0))
    return error("needs an operand");
  HostTensor out = *in.get(0);
  for (int i : {1, 2})
    if (in.get(i) && (in.get(i)->size() != 1 || in.get(i)->isFloat() != out.isFloat()))
      return error("bounds must be scalars of the operand's type");
  if (!out.isFloat()) {
    int64_t low = in.get(1) ? in.get(1)->ints[0] : std::numeric_limits<int64_t>::min();
    int64_t high = in.get(2) ? in.get(2)->ints[0] : std::numeric_limits<int64_t>::max();
    for (int64_t &x : out.ints)
      x = std::min(std::max(x, low), high); // high wins where they cross
    return std::vector<HostTensor>{std::move(out)};
  }
  double low = in.get(1) ? in.get(1)->floats[0]
                         : in.node.number("min", -std::numeric_limits<double>::infinity());
  double high = in.get(2) ? in.get(2)->floats[0]
                          : in.node.number("max", std::numeric_limits<double>::infinity());
  for (int64_t i = 0, n = out.size(); i < n; ++i)
    if (double x = out.floats[i]; x < low || x > high)
      out.set(i, std::min(std::max(x, low), high));
  return std::vector<HostTensor>{std::move(out)};
}

FoldResult foldIdentity(const FoldInput &in) {
  if (!in.get(0))
    return error("needs an operand");
  return std::vector<HostTensor>{*in.get(0)};
}

} // namespace

FoldFunction llmc::onnximport::findArithmeticFold(llvm::StringRef op) {
  if (binaries().count(op))
    return foldBinary;
  if (unaries().count(op))
    return foldUnary;
  static const llvm::StringMap<FoldFunction> table = {
      {"Not", foldLogicalUnary}, {"IsNaN", foldLogicalUnary},
      {"Cast", foldCast},        {"CastLike", foldCast},      {"Where", foldWhere},
      {"Clip", foldClip},        {"Identity", foldIdentity},
  };
  return table.lookup(op);
}
