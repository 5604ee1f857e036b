// Converts the fused ops of com.microsoft (ONNX Runtime's docs/ContribOperators.md) other than
// attention.
#include "lib/onnx/convert/Norms.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

// Returns operand 0 plus the optional bias vector `i`.
Result<Value> biased(NodeAdaptor &call, size_t i) {
  if (!call.isFloat(0) || call.shape(0).empty())
    return error("needs a float operand");
  Value x = call.value(0);
  if (!call.has(i))
    return x;
  if (!call.isFloat(i) || call.shape(i) != Shape{call.shape(0).back()})
    return error("bias of shape ", toText(call.shape(i)), " must be [", call.shape(0).back(), "]");
  return call.build.add(x, call.value(i, UseKind::Bias));
}

template <graph::GeluForm form>
ConvertResult convertGelu(NodeAdaptor &call) {
  auto x = biased(call, 1);
  if (!x)
    return x.takeError();
  return single(make<graph::GeluOp>(call, *x, form));
}

ConvertResult convertQuickGelu(NodeAdaptor &call) {
  if (auto s = needFloats(call, 1); !s)
    return s.takeError();
  Value x = call.value(0);
  Value inside = call.build.mul(x, call.scalar(call.node.number("alpha", 1.702)));
  return single(call.build.mul(x, make<graph::SigmoidOp>(call, inside)));
}

// Returns the sum of operands 0, 1 and the optional bias vector `i`.
Result<Value> skipSum(NodeAdaptor &call, size_t i) {
  if (!call.isFloat(0) || !call.isFloat(1) || call.shape(0).empty())
    return error("needs two float operands");
  auto joined = broadcastShapes(call.shape(0), call.shape(1));
  if (!joined || *joined != call.shape(0))
    return error("skip of shape ", toText(call.shape(1)), " does not broadcast to ",
                 toText(call.shape(0)));
  Value sum = call.build.add(call.value(0), call.value(1));
  if (!call.has(i))
    return sum;
  if (!call.isFloat(i) || call.shape(i) != Shape{call.shape(0).back()})
    return error("bias of shape ", toText(call.shape(i)), " must be [", call.shape(0).back(), "]");
  return call.build.add(sum, call.value(i, UseKind::Bias));
}

Value keepRows(NodeAdaptor &call, Value rows) {
  Shape shape(graph::shapeOf(rows));
  shape.push_back(1);
  return call.build.reshape(rows, shape);
}

// Normalizes the sum, which is output 3; the default of epsilon is that of ONNX Runtime's kernels.
ConvertResult convertSkipLayerNorm(NodeAdaptor &call) {
  auto sum = skipSum(call, 4);
  if (!sum)
    return sum.takeError();
  Shape normal{call.shape(0).back()};
  double epsilon = call.node.number("epsilon", 1e-12);
  auto scale = normVector(call, 2, normal, UseKind::Scale, 1);
  auto bias = normVector(call, 3, normal, UseKind::Bias, 0);
  if (!scale || !bias || !(epsilon > 0))
    return error("needs a scale [", normal[0], "], a bias like it or none, and epsilon > 0");
  Normalized out = layerNorm(call, *sum, *scale, *bias, epsilon);
  return std::vector<Operand>{out.y, keepRows(call, out.mean), keepRows(call, out.rstd), *sum};
}

ConvertResult convertSkipRmsNorm(NodeAdaptor &call) {
  auto sum = skipSum(call, 3);
  if (!sum)
    return sum.takeError();
  Shape normal{call.shape(0).back()};
  double epsilon = call.node.number("epsilon", 1e-12);
  auto scale = normVector(call, 2, normal, UseKind::Scale, 1);
  if (!scale || !(epsilon >= 0))
    return error("needs a scale [", normal[0], "], and epsilon >= 0");
  Normalized out = rmsNorm(call, *sum, *scale, epsilon);
  return std::vector<Operand>{out.y, Operand(), keepRows(call, out.rstd), *sum};
}

ConvertResult convertSimplified(NodeAdaptor &call) {
  return findConverter("SimplifiedLayerNormalization")(call);
}

//===-- Embeddings ------------------------------------------------------------===//

enum EmbedInput { Ids, Segments, Words, Positions, SegmentTable, Gamma, Beta, MaskInput, PositionIds };

// Gathers rows of operand `table` by operand `ids` [batch, sequence], known or computed. Fails if a
// known id is out of range.
Result<Value> embedded(NodeAdaptor &call, size_t table, size_t ids) {
  Shape shape = call.shape(table);
  if (!call.isFloat(table) || shape.size() != 2 || !call.isInteger(ids) ||
      call.shape(ids).size() != 2)
    return error("operand ", table, " must be a float table and operand ", ids,
                 " integers [batch, sequence]");
  if (const HostTensor *known = call.compact(ids)) {
    for (int64_t id : known->ints)
      if (id < 0 || id >= shape[0])
        return error("index ", id, " is outside a table of ", shape[0], " rows");
    Shape all = call.shape(ids);
    all.push_back(shape[1]);
    Value rows = gatherRows(call, call.value(table, UseKind::Table), call.materialize(*known));
    return call.build.broadcast(rows, all);
  }
  return gatherRows(call, call.value(table, UseKind::Table), call.value(ids));
}

// Returns the first `sequence` rows of the position table. Fails if it has fewer.
Result<Value> positionRows(NodeAdaptor &call, int64_t sequence) {
  Shape shape = call.shape(Positions);
  if (!call.isFloat(Positions) || shape.size() != 2 || shape[0] < sequence)
    return error("the position table of shape ", toText(shape), " has no ", sequence,
                 " rows (use --seq ", shape.empty() ? 0 : shape[0], " or less)");
  return call.build.slice(call.value(Positions, UseKind::Table), 0, 0, sequence);
}

ConvertResult convertEmbedLayerNorm(NodeAdaptor &call) {
  auto sum = embedded(call, Words, Ids);
  if (!sum)
    return sum.takeError();
  graph::Build &b = call.build;
  auto positions = call.has(PositionIds) ? embedded(call, Positions, PositionIds)
                                         : positionRows(call, call.shape(Ids)[1]);
  if (!positions)
    return positions.takeError();
  Shape shape(graph::shapeOf(*sum));
  auto fits = [&](Value v) {
    auto joined = graph::broadcastShapes(shape, graph::shapeOf(v));
    return joined && llvm::ArrayRef<int64_t>(*joined) == llvm::ArrayRef<int64_t>(shape);
  };
  if (!fits(*positions))
    return error("word and position embeddings differ in width or length");
  Value total = b.add(*sum, *positions);
  if (call.has(Segments) && call.has(SegmentTable)) {
    auto segments = embedded(call, SegmentTable, Segments);
    if (!segments)
      return segments.takeError();
    if (!fits(*segments))
      return error("word and segment embeddings differ in width or length");
    total = b.add(total, *segments);
  }
  Shape normal{shape.back()};
  double epsilon = call.node.number("epsilon", 1e-12);
  auto scale = normVector(call, Gamma, normal, UseKind::Scale, 1);
  auto bias = normVector(call, Beta, normal, UseKind::Bias, 0);
  if (!scale || !bias || !(epsilon > 0))
    return error("needs a scale and a bias [", normal[0], "], and epsilon > 0");
  Operand lengths;
  if (call.isInteger(MaskInput) && call.shape(MaskInput).size() == 2)
    lengths = b.reduce(call.value(MaskInput), graph::ReduceKind::sum, {1});
  else
    lengths = known(HostTensor(Element::I32, {shape[0]}));
  return std::vector<Operand>{layerNorm(call, total, *scale, *bias, epsilon).y, lengths, total};
}

//===-- Products --------------------------------------------------------------===//

// Converts a MatMul whose operands may be transposed in their last two dims.
ConvertResult convertFusedMatMul(NodeAdaptor &call) {
  if (auto s = needFloats(call, 2); !s)
    return s.takeError();
  if (call.node.integer("transBatchA", 0) || call.node.integer("transBatchB", 0))
    return error("transBatchA and transBatchB are not supported");
  size_t a = call.shape(0).size(), b = call.shape(1).size();
  if (a < 2 || b < 2 || std::max(a, b) > 22)
    return error("shapes ", toText(call.shape(0)), " and ", toText(call.shape(1)),
                 " do not multiply");
  std::string dims;
  for (size_t i = 0; i < std::max(a, b) - 2; ++i)
    dims += static_cast<char>('a' + i);
  auto tail = [&](size_t rank) { return dims.substr(dims.size() - (rank - 2)); };
  auto product = call.einsum(tail(a) + (call.node.integer("transA", 0) ? "yx" : "xy"),
                             tail(b) + (call.node.integer("transB", 0) ? "zy" : "yz"), dims + "xz");
  if (!product)
    return product.takeError();
  double alpha = call.node.number("alpha", 1);
  return single(alpha == 1 ? *product : call.build.mul(*product, call.scalar(alpha)));
}

// Converts a Gemm with an activation.
ConvertResult convertFusedGemm(NodeAdaptor &call) {
  ConvertResult product = findMatmulConverter("Gemm")(call);
  if (!product)
    return product;
  Value y = std::get<ComputedValue>((*product)[0]).value;
  std::string activation = call.node.text("activation", "");
  if (activation == "Relu")
    return single(make<graph::ReluOp>(call, y));
  if (activation == "Tanh")
    return single(make<graph::TanhOp>(call, y));
  if (activation == "Sigmoid")
    return single(make<graph::SigmoidOp>(call, y));
  return error("the activation '", activation, "' is not supported: Relu, Tanh and Sigmoid are; "
               "export without fusions of activations");
}

ConvertResult refuseBits(NodeAdaptor &call) {
  return error("weights of ", call.node.integer("bits", 4),
               " bits are not supported: export the model in float32, float16 or bfloat16");
}
ConvertResult refusePaged(NodeAdaptor &call) {
  return error("paged and sparse caches are not supported: export with GroupQueryAttention");
}

} // namespace

ConvertFunction llmc::onnximport::findMicrosoftConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"Gelu", convertGelu<graph::GeluForm::erf>},
      {"BiasGelu", convertGelu<graph::GeluForm::erf>},
      {"FastGelu", convertGelu<graph::GeluForm::tanh>},
      {"QuickGelu", convertQuickGelu},
      {"SimplifiedLayerNormalization", convertSimplified},
      {"SkipLayerNormalization", convertSkipLayerNorm},
      {"SkipSimplifiedLayerNormalization", convertSkipRmsNorm},
      {"EmbedLayerNormalization", convertEmbedLayerNorm},
      {"FusedMatMul", convertFusedMatMul},
      {"TransposeMatMul", convertFusedMatMul}, // its former name
      {"FusedGemm", convertFusedGemm},
      {"MatMulNBits", refuseBits},
      {"GatherBlockQuantized", refuseBits},
      {"PagedAttention", refusePaged},
      {"SparseAttention", refusePaged},
  };
  return op.consume_front("com.microsoft::") ? table.lookup(op) : nullptr;
}
