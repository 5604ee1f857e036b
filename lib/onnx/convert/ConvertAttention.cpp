// Converts ONNX's Attention (opset 23 and later) as ONNX 1.23 specifies it.
#include "lib/onnx/convert/Attention.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;

namespace {

enum Input { Q, K, V, AttnMask, PastKey, PastValue, NonpadLengths };

// Returns Q, K or V as [batch, rows, heads, dim].
Result<Value> headsOf(NodeAdaptor &call, Input input) {
  Shape shape = call.shape(input);
  if (!call.isFloat(input) || shape.size() != call.shape(Q).size() ||
      (shape.size() != 3 && shape.size() != 4))
    return error("Q, K and V must be floats of 3 or 4 dims, got ", toText(shape));
  if (shape.size() == 4)
    return call.build.transpose(call.value(input), {0, 2, 1, 3});
  return splitHeads(call, call.value(input),
                    call.node.integer(input == Q ? "q_num_heads" : "kv_num_heads", 0));
}

// Holds the numbers of keys that are not padding, per sample: keys j < length. The last row of a
// sample has position length - 1, so that row i has position i + length - rows.
struct Lengths {
  Value value; // [batch, 1, 1, 1]
  std::optional<int64_t> all;
};

Result<std::optional<Lengths>> lengthsOf(NodeAdaptor &call, int64_t batch) {
  if (!call.has(NonpadLengths))
    return std::optional<Lengths>();
  if (!call.isInteger(NonpadLengths) || call.shape(NonpadLengths) != Shape{batch} ||
      call.has(PastKey))
    return error("nonpad_kv_seqlen must be one length for each of the batch, and no cache given");
  Lengths out{call.build.reshape(call.value(NonpadLengths), {batch, 1, 1, 1}), std::nullopt};
  if (const HostTensor *known = call.compact(NonpadLengths); known && known->size() == 1)
    out.all = known->ints[0];
  return std::optional(out);
}

// Restricts keys by their distance to the row: at most `left` before it, at most `right` after it.
void addWindows(NodeAdaptor &call, Attention &a, const std::optional<Lengths> &lengths) {
  graph::Build &b = call.build;
  int64_t left = call.node.integer("left_window_size", -1);
  int64_t right = call.node.integer("right_window_size", -1);
  if (call.node.integer("is_causal", 0))
    right = right < 0 ? 0 : std::min<int64_t>(right, 0);
  int64_t rows = graph::shapeOf(a.q)[1], keys = graph::shapeOf(a.k)[1];
  int64_t limit = int64_t(1) << 40;
  left = std::min(left, limit);
  right = std::min(right, limit);
  if (lengths && lengths->all)
    a.offset = *lengths->all - rows;
  if (right >= 0 && (!lengths || lengths->all) && a.offset + right >= 0) {
    a.causal = true;
    a.offset += right;
    if (left >= 0)
      a.window = left + right + 1;
    return;
  }
  if (left < 0 && right < 0)
    return;
  // Compute the distance of each key after the row, [batch | 1, 1, rows, keys].
  Value row = indicesAlong(call, rows, 2, 4), key = indicesAlong(call, keys, 3, 4);
  Value place = lengths ? b.sub(b.add(row, lengths->value), call.scalarLike(rows, row))
                        : b.add(row, call.scalarLike(a.offset, row));
  Value behind = b.sub(key, place);
  if (right >= 0)
    a.masks.push_back(b.compare(behind, call.scalarLike(right, behind), graph::Predicate::le));
  if (left >= 0)
    a.masks.push_back(b.compare(behind, call.scalarLike(-left, behind), graph::Predicate::ge));
  a.offset = 0;
}

support::Status addMasks(NodeAdaptor &call, Attention &a) {
  auto q = graph::shapeOf(a.q);
  int64_t keys = graph::shapeOf(a.k)[1];
  auto lengths = lengthsOf(call, q[0]);
  if (!lengths)
    return lengths.takeError();
  addWindows(call, a, *lengths);
  if (*lengths && (*lengths)->all) {
    HostTensor seen(Element::Bool, {1, 1, 1, keys});
    for (int64_t j = 0; j < keys; ++j)
      seen.ints[j] = j < *(*lengths)->all;
    a.masks.push_back(collapseEqualDims(seen));
  } else if (*lengths) {
    Value key = indicesAlong(call, keys, 3, 4);
    a.masks.push_back(call.build.compare(key, (*lengths)->value, graph::Predicate::lt));
  }
  if (call.has(AttnMask)) {
    auto mask = maskOperand(call, AttnMask, {q[0], q[2], q[1], keys});
    if (!mask)
      return mask.takeError();
    a.masks.push_back(std::move(*mask));
  }
  return support::ok();
}

ConvertResult convertAttention(NodeAdaptor &call) {
  for (Input input : {Q, K, V})
    if (!call.has(input))
      return error("needs Q, K and V");
  if (call.has(PastKey) != call.has(PastValue))
    return error("past_key and past_value must be given together");
  Attention a;
  Value *parts[] = {&a.q, &a.k, &a.v};
  for (Input input : {Q, K, V}) {
    auto heads = headsOf(call, input);
    if (!heads)
      return heads.takeError();
    *parts[input] = *heads;
  }
  auto keys = withCache(call, a.k, PastKey), values = withCache(call, a.v, PastValue);
  if (!keys)
    return keys.takeError();
  if (!values)
    return values.takeError();
  a.k = keys->all;
  a.v = values->all;
  a.offset = keys->past;
  a.scale = usualScale(call.node.number("scale", 0), graph::shapeOf(a.q)[3]);
  a.softcap = call.node.number("softcap", 0);
  if (wants(call, 3))
    a.scores = call.node.integer("qk_matmul_output_mode", 0);
  if (auto s = addMasks(call, a); !s)
    return s.takeError();
  auto out = attend(call, a);
  if (!out)
    return out.takeError();
  Value y = call.shape(Q).size() == 4 ? call.build.transpose(out->y, {0, 2, 1, 3})
                                      : mergeHeads(call, out->y);
  std::vector<Operand> results{y, keys->present, values->present};
  if (out->scores)
    results.push_back(out->scores);
  return results;
}

} // namespace

ConvertFunction llmc::onnximport::findAttentionConverter(llvm::StringRef op) {
  return op == "Attention" ? convertAttention : nullptr;
}
