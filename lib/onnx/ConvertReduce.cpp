#include "lib/onnx/Conversion.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

ConvertResult convertReduce(Call &call) {
  if (!call.has(0) || !call.isFloat(0) || (call.has(1) && !call.constant(1)))
    return error("needs a float operand, and axes known at import");
  Shape shape = call.shape(0), kept;
  auto axes = axesOf(call.node, call.constant(1), shape.size());
  if (!axes)
    return axes.takeError();
  Value x = call.value(0);
  if (axes->empty()) {
    if (call.node.integer("noop_with_empty_axes", 0))
      return single(x);
    for (size_t d = 0; d < shape.size(); ++d)
      axes->push_back(d);
  }
  llvm::sort(*axes);
  int64_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool reduced = llvm::is_contained(*axes, static_cast<int64_t>(d));
    count *= reduced ? shape[d] : 1;
    if (!reduced || call.node.integer("keepdims", 1))
      kept.push_back(reduced ? 1 : shape[d]);
  }
  llvm::StringRef op = call.node.op();
  auto kind = op == "ReduceMax"         ? graph::ReduceKind::max
              : op == "ReduceSumSquare" ? graph::ReduceKind::sum_squares
                                        : graph::ReduceKind::sum;
  x = call.build.reduce(x, kind, *axes);
  if (op == "ReduceMean")
    x = call.build.mul(x, call.scalar(count ? 1.0 / count : 0));
  return single(call.build.reshape(x, kept));
}

ConvertResult convertSoftmax(Call &call) {
  if (!call.has(0) || !call.isFloat(0))
    return error("needs a float operand");
  int64_t rank = call.shape(0).size();
  bool old = call.node.opset < 13; // then all dims from the axis on are one row
  auto axis = normalAxis(call.node.integer("axis", old ? 1 : -1), rank);
  if (!axis || (old && *axis != rank - 1))
    return error("axis ", call.node.integer("axis", old ? 1 : -1), " of ", rank,
                 " dims is not supported: the last one is");
  Value x = call.value(0);
  Shape swap;
  for (int64_t d = 0; d < rank; ++d)
    swap.push_back(d);
  std::swap(swap[*axis], swap.back());
  bool last = *axis == rank - 1;
  x = last ? x : call.build.transpose(x, swap);
  x = graph::SoftmaxOp::create(call.build.builder, call.build.loc, x.getType(), x);
  return single(last ? x : call.build.transpose(x, swap));
}

} // namespace

ConvertFunction llmc::onnximport::findReduceConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"ReduceSum", convertReduce},       {"ReduceMean", convertReduce},
      {"ReduceMax", convertReduce},       {"ReduceSumSquare", convertReduce},
      {"Softmax", convertSoftmax},
  };
  return table.lookup(op);
}
