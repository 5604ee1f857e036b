// Reductions of constants.
#include "lib/onnx/Fold.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <limits>

using namespace llmc;
using namespace llmc::onnximport;
using llmc::support::error;

namespace {

struct Reduction {
  double start;
  double (*join)(double, double);
};

const llvm::StringMap<Reduction> &reductions() {
  using D = double;
  static const llvm::StringMap<Reduction> table = {
      {"ReduceSum", {0, [](D a, D b) { return a + b; }}},
      {"ReduceMean", {0, [](D a, D b) { return a + b; }}},
      {"ReduceProd", {1, [](D a, D b) { return a * b; }}},
      {"ReduceMax", {-std::numeric_limits<D>::infinity(), [](D a, D b) { return a > b ? a : b; }}},
      {"ReduceMin", {std::numeric_limits<D>::infinity(), [](D a, D b) { return a < b ? a : b; }}},
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
  std::vector<double> sums(*countElements(kept), rule.start);
  forEachElement(a.shape, {broadcastStrides(kept, a.shape)},
                 [&](int64_t n, llvm::ArrayRef<int64_t> at) {
                   sums[at[0]] = rule.join(sums[at[0]], a.number(n));
                 });
  HostTensor out(a.element, shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.set(i, in.node.op() == "ReduceMean" && count ? sums[i] / count : sums[i]);
  return std::vector<HostTensor>{std::move(out)};
}

} // namespace

FoldFunction llmc::onnximport::findReduceFold(llvm::StringRef op) {
  return reductions().count(op) ? foldReduce : nullptr;
}
