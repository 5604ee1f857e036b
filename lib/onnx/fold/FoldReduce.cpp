// Evaluates reductions and matrix products of constants.
#include "lib/onnx/fold/Fold.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <limits>

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;

namespace {

struct Reduction {
  double start;
  double (*floats)(double, double);
  int64_t (*ints)(int64_t, int64_t); // exact, modulo 2^64
};

const llvm::StringMap<Reduction> &reductions() {
  using D = double;
  using I = int64_t;
  auto plus = [](D a, D b) { return a + b; };
  auto sum = [](I a, I b) { return I(uint64_t(a) + uint64_t(b)); };
  constexpr D infinity = std::numeric_limits<D>::infinity();
  // A NaN among the elements is their largest and their smallest.
  static const llvm::StringMap<Reduction> table = {
      {"ReduceSum", {0, plus, sum}},
      {"ReduceMean", {0, plus, sum}},
      {"ReduceProd", {1, [](D a, D b) { return a * b; },
                      [](I a, I b) { return I(uint64_t(a) * uint64_t(b)); }}},
      {"ReduceMax", {-infinity, [](D a, D b) { return a > b || a != a ? a : b; },
                     [](I a, I b) { return std::max(a, b); }}},
      {"ReduceMin", {infinity, [](D a, D b) { return a < b || a != a ? a : b; },
                     [](I a, I b) { return std::min(a, b); }}},
  };
  return table;
}

FoldResult foldReduce(const FoldInput &in) {
  if (!in.get(0))
    return error("needs an operand");
  const HostTensor &a = *in.get(0);
  auto axes = axesOf(in.node, in.get(1), a.shape.size());
  if (!axes)
    return axes.takeError();
  if (axes->empty() && in.node.integer("noop_with_empty_axes", 0))
    return std::vector<HostTensor>{a};
  bool all = axes->empty(), keep = in.node.integer("keepdims", 1);
  Shape kept, shape;
  int64_t count = 1;
  for (size_t d = 0; d < a.shape.size(); ++d) {
    bool reduced = all || llvm::is_contained(*axes, static_cast<int64_t>(d));
    kept.push_back(reduced ? 1 : a.shape[d]);
    count *= reduced ? a.shape[d] : 1;
    if (!reduced || keep)
      shape.push_back(kept.back());
  }
  const Reduction &rule = reductions().find(in.node.op())->second;
  int64_t divisor = in.node.op() == "ReduceMean" ? std::max<int64_t>(count, 1) : 1;
  Shape to = broadcastStrides(kept, a.shape);
  HostTensor out(a.element, shape);
  if (a.isFloat()) {
    std::vector<double> sums(out.size(), rule.start);
    forEachElement(a.shape, {to}, [&](int64_t n, llvm::ArrayRef<int64_t> at) {
      sums[at[0]] = rule.floats(sums[at[0]], a.floats[n]);
    });
    for (int64_t i = 0; i < out.size(); ++i)
      out.set(i, sums[i] / divisor);
    return std::vector<HostTensor>{std::move(out)};
  }
  // The maximum of no booleans is false.
  int64_t start = a.element == Element::Bool && rule.start < 0 ? 0 : truncated(rule.start);
  std::vector<int64_t> sums(out.size(), start);
  forEachElement(a.shape, {to}, [&](int64_t n, llvm::ArrayRef<int64_t> at) {
    sums[at[0]] = rule.ints(sums[at[0]], a.ints[n]);
  });
  for (int64_t i = 0; i < out.size(); ++i)
    out.set(i, sums[i] / divisor);
  return std::vector<HostTensor>{std::move(out)};
}

// Folds small matrix products, such as those that give the angles of rotary positions.
FoldResult foldMatMul(const FoldInput &in) {
  if (!in.get(0) || !in.get(1) || in.get(0)->shape.empty() || in.get(1)->shape.empty())
    return error("needs two operands with dims");
  HostTensor a = *in.get(0), b = *in.get(1);
  // A vector becomes a matrix; the dim is removed at the end.
  bool row = a.shape.size() == 1, column = b.shape.size() == 1;
  if (row)
    a.shape.insert(a.shape.begin(), 1);
  if (column)
    b.shape.push_back(1);
  llvm::ArrayRef<int64_t> aShape(a.shape), bShape(b.shape);
  int64_t rows = aShape.end()[-2], inner = aShape.back(), columns = bShape.back();
  auto batch = broadcastShapes(aShape.drop_back(2), bShape.drop_back(2));
  if (!batch || inner != bShape.end()[-2])
    return error("shapes ", toText(aShape), " and ", toText(bShape), " do not multiply");
  // Iterate over [batch, rows, columns] with the operands' strides, and sum inside.
  Shape shape = *batch, left = *batch, right = *batch;
  shape.append({rows, columns});
  left.append({rows, inner});
  right.append({inner, columns});
  if (auto s = checkHostSize(shape); !s)
    return s.takeError();
  Shape x = broadcastStrides(aShape, left), y = broadcastStrides(bShape, right);
  int64_t xStep = x.back(), yStep = y.end()[-2];
  x.back() = 0;
  y.end()[-2] = 0;
  HostTensor out(a.element, shape);
  forEachElement(shape, {x, y}, [&](int64_t n, llvm::ArrayRef<int64_t> at) {
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += a.number(at[0] + k * xStep) * b.number(at[1] + k * yStep);
    out.set(n, sum);
  });
  if (column)
    out.shape.pop_back();
  if (row)
    out.shape.erase(out.shape.end() - (column ? 1 : 2));
  return std::vector<HostTensor>{std::move(out)};
}

} // namespace

FoldFunction llmc::onnximport::findReduceFold(llvm::StringRef op) {
  if (op == "MatMul")
    return foldMatMul;
  return reductions().count(op) ? foldReduce : nullptr;
}
