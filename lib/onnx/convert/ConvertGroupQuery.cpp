// Converts GroupQueryAttention of com.microsoft: fewer heads of keys than of queries, rotary
// positions and a cache in one op.
#include "lib/onnx/convert/Attention.h"
#include "lib/onnx/convert/Norms.h"
#include "lib/onnx/convert/Rotary.h"
#include "llvm/ADT/STLExtras.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

enum Gqa { Query, Key, ValueInput, PastKey, PastValue, LastKeys, TotalLength, Cos, Sin,
           PositionIds, AttentionBias, HeadSink, KScale, VScale, QNorm, KNorm };

Status checkGqa(NodeAdaptor &call) {
  if (call.has(KScale) || call.has(VScale) || call.node.text("k_quant_type", "NONE") != "NONE" ||
      call.node.text("v_quant_type", "NONE") != "NONE")
    return error("quantised caches are not supported");
  if (call.node.integer("sliding_window_cache", 0))
    return error("window-sized caches are not supported");
  if (wants(call, 3))
    return error("the output qk is not supported");
  if (call.has(Key) != call.has(ValueInput))
    return error("key and value must be given together");
  return support::ok();
}

Result<Projected> splitGqa(NodeAdaptor &call, int64_t heads, int64_t kvHeads) {
  Shape q = call.shape(Query);
  if (!call.isFloat(Query) || q.size() != 3 || heads <= 0 || kvHeads <= 0)
    return error("needs a float query [batch, rows, width], num_heads and kv_num_heads");
  Projected out;
  Value all = call.value(Query);
  if (!call.has(Key)) {
    if (q[2] % (heads + 2 * kvHeads))
      return error("packed width ", q[2], " is not divisible by ", heads + 2 * kvHeads, " heads");
    int64_t dim = q[2] / (heads + 2 * kvHeads);
    out.parts[0] = columns(call, all, 0, heads * dim);
    out.parts[1] = columns(call, all, heads * dim, kvHeads * dim);
    out.parts[2] = columns(call, all, (heads + kvHeads) * dim, kvHeads * dim);
  } else {
    if (!call.isFloat(Key) || !call.isFloat(ValueInput))
      return error("key and value must be floats");
    out.parts[0] = all;
    out.parts[1] = call.value(Key);
    out.parts[2] = call.value(ValueInput);
  }
  for (size_t i = 0; i < 3; ++i) {
    auto split = splitHeads(call, out.parts[i], i ? kvHeads : heads);
    if (!split)
      return split.takeError();
    out.parts[i] = *split;
  }
  return out;
}

// Returns the number of tokens of each sample before its rows, [batch, 1]; null if that is the
// length of the cache (`past`, 0 without one) for all.
Result<Value> pastOf(NodeAdaptor &call, int64_t batch, int64_t rows, int64_t past) {
  if (past == 0 || !call.has(LastKeys))
    return Value();
  if (!call.isInteger(LastKeys) || countElements(call.shape(LastKeys)) != batch)
    return error("seqlens_k must be one integer for each of the batch");
  const HostTensor *known = call.compact(LastKeys);
  if (known && known->size() == 1 && known->ints[0] + 1 - rows == past)
    return Value();
  Value last = call.build.reshape(call.value(LastKeys), {batch, 1});
  return call.build.sub(last, call.scalarLike(rows - 1, last));
}

Status rotateGqa(NodeAdaptor &call, Projected &parts, int64_t past, Value pasts) {
  if (!call.node.integer("do_rotary", 0))
    return support::ok();
  int64_t rows = graph::shapeOf(parts.parts[0])[1];
  Result<RotaryTables> tables = error("");
  if (call.has(PositionIds)) {
    const HostTensor *ids = call.constant(PositionIds);
    if (!call.isInteger(PositionIds) || call.shape(PositionIds).size() != 2)
      return error("position_ids must be integers [batch, rows]");
    tables = tablesAt(call, Cos, Sin, ids, ids ? Value() : call.value(PositionIds));
  } else if (pasts) {
    Value ids = call.build.add(pasts, indicesAlong(call, rows, 1, 2));
    tables = tablesAt(call, Cos, Sin, nullptr, ids);
  } else {
    HostTensor ids(Element::I64, {1, rows});
    for (int64_t i = 0; i < rows; ++i)
      ids.ints[i] = past + i;
    tables = tablesAt(call, Cos, Sin, &ids, Value());
  }
  if (!tables)
    return tables.takeError();
  for (size_t i = 0; i < 2; ++i) {
    auto out = rotate(call, parts.parts[i], *tables, call.node.integer("rotary_interleaved", 0));
    if (!out)
      return out.takeError();
    parts.parts[i] = *out;
  }
  return support::ok();
}

Status normHeads(NodeAdaptor &call, Projected &parts) {
  for (size_t i = 0; i < 2; ++i) {
    size_t weight = i ? KNorm : QNorm;
    if (!call.has(weight))
      continue;
    auto scale = normVector(call, weight, graph::shapeOf(parts.parts[i]).take_back(1),
                            UseKind::Scale, 1);
    if (!scale)
      return scale.takeError();
    double epsilon = call.node.number("qk_norm_epsilon", 1e-6);
    parts.parts[i] = rmsNorm(call, parts.parts[i], *scale, epsilon).y;
  }
  return support::ok();
}

// Masks the padding of a cache that is longer than a sample's past; the fresh keys come after the
// whole cache.
void hidePadding(NodeAdaptor &call, Attention &a, Value pasts, int64_t past) {
  graph::Build &b = call.build;
  int64_t batch = graph::shapeOf(pasts)[0], keys = graph::shapeOf(a.k)[1];
  Value key = indicesAlong(call, keys, 3, 4);
  Value old = b.compare(key, b.reshape(pasts, {batch, 1, 1, 1}), graph::Predicate::lt);
  Value fresh = b.compare(key, call.scalarLike(past, key), graph::Predicate::ge);
  a.masks.push_back(Mask(make<graph::OrOp>(call, old, fresh)));
}

// Masks, without a cache, the keys after a sample's last, which are padding. Rows after it are
// padding too, but are computed.
Status hideRest(NodeAdaptor &call, Attention &a) {
  int64_t batch = graph::shapeOf(a.q)[0], keys = graph::shapeOf(a.k)[1];
  if (!call.has(LastKeys))
    return support::ok();
  if (!call.isInteger(LastKeys) || countElements(call.shape(LastKeys)) != batch)
    return error("seqlens_k must be one integer for each of the batch");
  const HostTensor *known = call.compact(LastKeys);
  if (known && llvm::all_of(known->ints, [&](int64_t last) { return last >= keys - 1; }))
    return support::ok();
  Value last = call.build.reshape(call.value(LastKeys), {batch, 1, 1, 1});
  Value key = indicesAlong(call, keys, 3, 4);
  a.masks.push_back(Mask(call.build.compare(key, last, graph::Predicate::le)));
  return support::ok();
}

Status finishGqa(NodeAdaptor &call, Attention &a, int64_t past) {
  a.scale = usualScale(call.node.number("scale", 0), graph::shapeOf(a.q)[3]);
  a.softcap = call.node.number("softcap", 0);
  a.causal = call.node.integer("causal", 1);
  a.offset = past;
  if (int64_t window = call.node.integer("local_window_size", -1); window > 0) {
    if (!a.causal)
      return error("local_window_size needs causal attention");
    a.window = window;
  }
  int64_t heads = graph::shapeOf(a.q)[2];
  if (call.has(HeadSink)) {
    if (!call.isFloat(HeadSink) || call.shape(HeadSink) != Shape{heads})
      return error("head_sink must be one float a head");
    a.sink = call.value(HeadSink);
  } else if (call.node.integer("smooth_softmax", 0) == 1) {
    a.sink = call.build.broadcast(call.scalar(0), {heads});
  }
  return addBias(call, AttentionBias, a);
}

ConvertResult convertGroupQuery(NodeAdaptor &call) {
  if (Status s = checkGqa(call); !s)
    return s.takeError();
  auto parts = splitGqa(call, call.node.integer("num_heads", 0),
                        call.node.integer("kv_num_heads", 0));
  if (!parts)
    return parts.takeError();
  auto q = graph::shapeOf(parts->parts[0]);
  int64_t batch = q[0], rows = q[1];
  int64_t past = call.has(PastKey) && call.shape(PastKey).size() == 4 ? call.shape(PastKey)[2] : 0;
  auto pasts = pastOf(call, batch, rows, past);
  if (!pasts)
    return pasts.takeError();
  if (Status s = normHeads(call, *parts); !s)
    return s.takeError();
  if (Status s = rotateGqa(call, *parts, past, *pasts); !s)
    return s.takeError();
  auto keys = withCache(call, parts->parts[1], PastKey);
  auto values = withCache(call, parts->parts[2], PastValue);
  if (!keys)
    return keys.takeError();
  if (!values)
    return values.takeError();
  Attention a;
  a.q = parts->parts[0];
  a.k = keys->all;
  a.v = values->all;
  if (Status s = finishGqa(call, a, past); !s)
    return s.takeError();
  if (*pasts)
    hidePadding(call, a, *pasts, past);
  if (past == 0)
    if (Status s = hideRest(call, a); !s)
      return s.takeError();
  auto out = attend(call, a);
  if (!out)
    return out.takeError();
  return std::vector<Operand>{mergeHeads(call, out->y), keys->present, values->present};
}

} // namespace

ConvertFunction llmc::onnximport::findGroupQueryConverter(llvm::StringRef op) {
  return op == "com.microsoft::GroupQueryAttention" ? convertGroupQuery : nullptr;
}
