// Converts softmax, its logarithm, and the losses on them.
#include "lib/onnx/convert/Formula.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

// Applies a formula along the axis; before opset 13 all dims from the axis on form one row.
template <Value (*formula)(NodeAdaptor &, Value)>
ConvertResult alongAxis(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  Shape shape = call.shape(0);
  int64_t rank = shape.size();
  bool old = call.node.opset < 13;
  int64_t given = call.node.integer("axis", old ? 1 : -1);
  auto axis = normalAxis(given, rank);
  if (!axis)
    return error("axis ", given, " is not one of ", rank, " dims");
  Value x = call.value(0);
  if (*axis == rank - 1)
    return single(formula(call, x));
  if (old) {
    Shape three = threeDims(shape, *axis);
    x = call.build.reshape(x, {three[0], three[1] * three[2]});
    return single(call.build.reshape(formula(call, x), shape));
  }
  Shape swap = swapped(rank, *axis, rank - 1);
  return single(call.build.transpose(formula(call, call.build.transpose(x, swap)), swap));
}

struct Labelled {
  Value scores;    // [..., classes]
  Value labels;    // [...]
  Value weights;   // [...], null if all weights are 1; 0 for ignored labels
  Value ignored;   // [...], i1, null without ignore_index
};

// Reads the operands: scores [batch, classes, ...], labels [batch, ...], weights [classes].
Result<Labelled> labelled(NodeAdaptor &call) {
  if (!call.isFloat(0) || !call.isInteger(1) || (call.has(2) && !call.isFloat(2)))
    return error("needs float scores, integer labels and, if any, float weights");
  Shape scores = call.shape(0), rest = scores;
  int64_t rank = scores.size();
  if (rank >= 2)
    rest.erase(rest.begin() + 1);
  if (rank < 2 || call.shape(1) != rest || (call.has(2) && call.shape(2) != Shape{scores[1]}))
    return error("scores of shape ", toText(scores), " do not fit labels of ",
                 toText(call.shape(1)));
  graph::Build &b = call.build;
  Labelled out;
  out.scores = call.value(0);
  if (rank > 2)
    out.scores = b.transpose(out.scores, moved(rank, 1, rank - 1));
  out.labels = call.value(1);
  if (call.node.has("ignore_index")) {
    Value index = call.scalarLike(call.node.integer("ignore_index", -1), out.labels);
    out.ignored = b.compare(out.labels, index, graph::Predicate::eq);
    out.labels = b.select(out.ignored, call.scalarLike(0, out.labels), out.labels);
  }
  if (call.has(2))
    out.weights = gatherRows(call, call.value(2), out.labels);
  if (out.ignored) {
    Value weights = out.weights ? out.weights : call.scalar(1);
    out.weights = b.select(out.ignored, call.scalar(0), weights);
  }
  return out;
}

Result<Value> loss(NodeAdaptor &call, const Labelled &in, Value logs) {
  graph::Build &b = call.build;
  std::string reduction = call.node.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return error("reduction '", reduction, "' is not one of mean, sum and none");
  auto type = RankedTensorType::get(graph::shapeOf(in.labels), b.builder.getF32Type());
  Value taken = graph::TakeAlongOp::create(b.builder, b.loc, type, logs, in.labels, Value());
  Value each = b.neg(taken);
  if (in.weights)
    each = b.mul(each, in.weights);
  if (reduction == "none")
    return each;
  Shape all;
  for (size_t d = 0; d < graph::shapeOf(each).size(); ++d)
    all.push_back(d);
  Value total = b.reduce(each, graph::ReduceKind::sum, all);
  if (reduction == "sum")
    return total;
  if (in.weights)
    return b.div(total, b.reduce(b.broadcast(in.weights, graph::shapeOf(each)),
                                 graph::ReduceKind::sum, all));
  int64_t count = *countElements(graph::shapeOf(each));
  return b.mul(total, call.scalar(count ? 1.0 / count : 0));
}

// Converts NegativeLogLikelihoodLoss, whose operand 0 holds logarithms of probabilities.
ConvertResult convertNegativeLogLikelihood(NodeAdaptor &call) {
  auto in = labelled(call);
  if (!in)
    return in.takeError();
  auto value = loss(call, *in, in->scores);
  return value ? single(*value) : ConvertResult(value.takeError());
}

ConvertResult convertCrossEntropy(NodeAdaptor &call) {
  auto in = labelled(call);
  if (!in)
    return in.takeError();
  Value logs = logSoftmaxOf(call, in->scores);
  auto value = loss(call, *in, logs);
  if (!value)
    return value.takeError();
  int64_t rank = call.shape(0).size();
  if (rank > 2)
    logs = call.build.transpose(logs, moved(rank, rank - 1, 1));
  return std::vector<Operand>{*value, logs};
}

} // namespace

ConvertFunction llmc::onnximport::findSoftmaxConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Softmax", alongAxis<softmaxOf>},
      {"LogSoftmax", alongAxis<logSoftmaxOf>},
  };
  return table.lookup(op);
}

ConvertFunction llmc::onnximport::findLossConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"NegativeLogLikelihoodLoss", convertNegativeLogLikelihood},
      {"SoftmaxCrossEntropyLoss", convertCrossEntropy},
  };
  return table.lookup(op);
}
