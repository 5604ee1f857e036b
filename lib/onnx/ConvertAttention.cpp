// The standard's Attention (23 and later), read as version 1.23 words it.
#include "lib/onnx/Conversion.h"

#include <cmath>
#include <limits>

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;

namespace {

// What an additive or boolean mask that is known at import says.
enum class Mask { None, Causal, Other };

// Below this an added term leaves a probability of exactly zero.
constexpr double hidden = -1e30;

bool sees(const HostTensor &mask, int64_t i) {
  return mask.isFloat() ? mask.floats[i] > hidden : mask.ints[i] != 0;
}

// `mask` has 1 for dims that do not matter; only the last two may.
Mask maskOf(const HostTensor &mask, int64_t rows, int64_t keys) {
  if (mask.isFloat())
    for (double v : mask.floats)
      if (v != 0 && v > hidden)
        return Mask::Other;
  if (mask.size() == 1)
    return sees(mask, 0) ? Mask::None : Mask::Other;
  if (mask.size() != rows * keys || rows != keys || mask.shape.back() != keys)
    return Mask::Other;
  for (int64_t n = 0; n < mask.size(); ++n)
    if (sees(mask, n) != (n % keys <= n / keys))
      return Mask::Other;
  return Mask::Causal;
}

struct Heads {
  Value q, k, v; // [batch, rows, heads, dim]
  bool fourDims; // the node's operands are [batch, heads, rows, dim]
};

support::Result<Heads> headsOf(Call &call) {
  if (!call.has(0) || !call.has(1) || !call.has(2))
    return error("needs Q, K and V");
  for (size_t i : {4, 5, 6})
    if (call.has(i) && countElements(call.shape(i)) != 0)
      return error("a cache is not supported in training");
  Heads heads{{}, {}, {}, call.shape(0).size() == 4};
  int64_t counts[] = {call.node.integer("q_num_heads", 0), call.node.integer("kv_num_heads", 0),
                      call.node.integer("kv_num_heads", 0)};
  Value *out[] = {&heads.q, &heads.k, &heads.v};
  for (size_t i = 0; i < 3; ++i) {
    Shape shape = call.shape(i);
    if (shape.size() != (heads.fourDims ? 4 : 3) || !call.isFloat(i))
      return error("Q, K and V must be floats of 3 or 4 dims, got ", toText(shape));
    if (heads.fourDims) {
      *out[i] = call.build.transpose(call.value(i), {0, 2, 1, 3});
      continue;
    }
    if (counts[i] <= 0 || shape[2] % counts[i])
      return error("width ", shape[2], " is not divisible by ", counts[i], " heads");
    *out[i] = call.build.reshape(call.value(i),
                                 {shape[0], shape[1], counts[i], shape[2] / counts[i]});
  }
  auto q = graph::shapeOf(heads.q), k = graph::shapeOf(heads.k), v = graph::shapeOf(heads.v);
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] ||
      k[2] == 0 || q[2] % k[2])
    return error("shapes ", toText(q), ", ", toText(k), " and ", toText(v),
                 " (batch, rows, heads, dim) do not fit");
  return heads;
}

// Key and value heads repeated so that each query head has its own.
Value repeatHeads(graph::Build &build, Value x, int64_t heads) {
  Shape shape(graph::shapeOf(x));
  if (shape[2] == heads)
    return x;
  x = build.reshape(x, {shape[0], shape[1], shape[2], 1, shape[3]});
  x = build.broadcast(x, {shape[0], shape[1], shape[2], heads / shape[2], shape[3]});
  return build.reshape(x, {shape[0], shape[1], heads, shape[3]});
}

// The additive form of masks: what is not seen gets -inf.
HostTensor additive(const HostTensor &mask) {
  HostTensor out(Element::F32, mask.shape);
  for (int64_t i = 0; i < out.size(); ++i)
    out.floats[i] = mask.isFloat()   ? mask.floats[i]
                    : mask.ints[i] ? 0
                                   : -std::numeric_limits<double>::infinity();
  return out;
}

HostTensor causalMask(int64_t rows, int64_t keys) {
  HostTensor out(Element::Bool, {rows, keys});
  for (int64_t n = 0; n < out.size(); ++n)
    out.ints[n] = n % keys <= n / keys;
  return out;
}

// softmax(softcap(scale q k^T) + mask) v, by matmuls.
Value spelledOut(Call &call, const Heads &heads, double scale, double softcap, bool causal) {
  graph::Build &build = call.build;
  int64_t rows = graph::shapeOf(heads.q)[1], count = graph::shapeOf(heads.q)[2];
  Value k = repeatHeads(build, heads.k, count), v = repeatHeads(build, heads.v, count);
  Type f32 = build.builder.getF32Type();
  Value scores = build.matmul("bqhd,bkhd->bhqk", heads.q, k, f32);
  scores = build.mul(scores, call.scalar(scale));
  if (softcap > 0) {
    scores = build.mul(scores, call.scalar(1 / softcap));
    scores = graph::TanhOp::create(build.builder, build.loc, scores);
    scores = build.mul(scores, call.scalar(softcap));
  }
  if (const HostTensor *mask = call.compact(3))
    scores = build.add(scores, call.materialize(additive(*mask)));
  else if (call.has(3))
    scores = build.add(scores, call.value(3));
  if (causal)
    scores = build.add(scores,
                       call.materialize(additive(causalMask(rows, graph::shapeOf(k)[1]))));
  Value weights = graph::SoftmaxOp::create(build.builder, build.loc, scores.getType(), scores);
  return build.matmul("bhqk,bkhd->bqhd", weights, v, f32);
}

support::Status checkAttributes(Call &call) {
  for (int i = 1; i < call.node.proto->output_size(); ++i)
    if (!call.node.proto->output(i).empty() && i == 3)
      return error("the output qk_matmul_output is not supported");
  for (const char *window : {"left_window_size", "right_window_size"})
    if (call.node.integer(window, -1) >= 0)
      return error(window, " is not supported");
  return support::ok();
}

ConvertResult convertAttention(Call &call) {
  if (auto s = checkAttributes(call); !s)
    return s.takeError();
  auto heads = headsOf(call);
  if (!heads)
    return heads.takeError();
  graph::Build &build = call.build;
  Shape q(graph::shapeOf(heads->q)), k(graph::shapeOf(heads->k)), v(graph::shapeOf(heads->v));
  if (call.has(3)) {
    auto fits = broadcastShapes(call.shape(3), {q[0], q[2], q[1], k[1]});
    if (!fits || *fits != Shape{q[0], q[2], q[1], k[1]})
      return error("mask of shape ", toText(call.shape(3)), " does not broadcast to ",
                   toText({q[0], q[2], q[1], k[1]}));
  }
  double usual = 1 / std::sqrt(double(q[3])), scale = call.node.number("scale", usual);
  if (std::fabs(scale - usual) < 1e-6 * usual) // a float's rounding
    scale = usual;
  double softcap = call.node.number("softcap", 0);
  bool causal = call.node.integer("is_causal", 0);
  Mask mask = !call.has(3)         ? Mask::None
              : call.compact(3)  ? maskOf(*call.compact(3), q[1], k[1])
                                 : Mask::Other;
  Value out;
  bool fused = mask != Mask::Other && softcap == 0 && q[3] == v[3] &&
               (!(causal || mask == Mask::Causal) || q[1] == k[1]);
  if (fused) {
    auto rows = RankedTensorType::get({q[0], q[1], q[2]}, build.builder.getF32Type());
    out = graph::AttentionOp::create(build.builder, build.loc, heads->q.getType(), rows, heads->q,
                                     heads->k, heads->v, build.builder.getF64FloatAttr(scale),
                                     build.builder.getBoolAttr(causal || mask == Mask::Causal))
              .getO();
  } else {
    out = spelledOut(call, *heads, scale, softcap, causal);
  }
  return single(heads->fourDims ? build.transpose(out, {0, 2, 1, 3})
                                : build.reshape(out, {q[0], q[1], q[2] * v[3]}));
}

} // namespace

ConvertFunction llmc::onnximport::findAttentionConverter(llvm::StringRef op) {
  return op == "Attention" ? convertAttention : nullptr;
}
