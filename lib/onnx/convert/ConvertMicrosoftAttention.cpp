// Converts Attention and MultiHeadAttention of com.microsoft.
#include "lib/onnx/convert/Attention.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace llmc::onnximport;
using namespace llmc;
using namespace mlir;
using llmc::support::error;
using llmc::support::Result;
using llmc::support::Status;

namespace {

// Converts a padding mask of integers to terms of the scores: 0 for keys, mask_filter_value for
// padding. A known mask stays known.
Result<Mask> paddingMask(NodeAdaptor &call, size_t i, llvm::ArrayRef<int64_t> four) {
  double filter = call.node.number("mask_filter_value", -10000);
  if (const HostTensor *compact = call.compact(i)) {
    HostTensor known(Element::F32, four);
    HostTensor dense = takeStrided(*compact, call.shape(i),
                                   broadcastStrides(compact->shape, call.shape(i)));
    for (int64_t k = 0; k < known.size(); ++k)
      known.floats[k] = dense.ints[k] ? 0 : filter;
    return Mask(collapseEqualDims(known));
  }
  Value mask = call.build.reshape(call.value(i), four);
  Value seen = call.isBool(i) ? mask
                              : call.build.compare(mask, call.scalarLike(0, mask),
                                                   graph::Predicate::ne);
  return Mask(call.build.select(seen, call.scalar(0), call.scalar(filter)));
}

// Builds the mask that keeps keys j < ends[b] and, if given, j >= starts[b] of sample b.
Mask lengthMask(NodeAdaptor &call, Value ends, Value starts, int64_t keys) {
  graph::Build &b = call.build;
  Value filter = call.scalar(call.node.number("mask_filter_value", -10000));
  int64_t batch = graph::shapeOf(ends)[0];
  Value key = indicesAlong(call, keys, 3, 4);
  Value seen = b.compare(key, b.reshape(ends, {batch, 1, 1, 1}), graph::Predicate::lt);
  if (starts)
    seen = make<graph::AndOp>(call, seen, b.compare(key, b.reshape(starts, {batch, 1, 1, 1}),
                                                    graph::Predicate::ge));
  return Mask(b.select(seen, call.scalar(0), filter));
}

// Adds the key padding mask of operand `i`, in any of its shapes, to the masks.
Status addPadding(NodeAdaptor &call, size_t i, Attention &a) {
  if (!call.has(i))
    return support::ok();
  auto q = graph::shapeOf(a.q);
  int64_t batch = q[0], rows = q[1], keys = graph::shapeOf(a.k)[1];
  Shape shape = call.shape(i);
  if (call.isFloat(i))
    return error("a mask must be integers");
  if (shape == Shape{batch}) {
    a.masks.push_back(lengthMask(call, call.value(i), Value(), keys));
    return support::ok();
  }
  if (shape == Shape{2 * batch}) {
    Value all = call.value(i);
    a.masks.push_back(lengthMask(call, call.build.slice(all, 0, 0, batch),
                                 call.build.slice(all, 0, batch, 2 * batch), keys));
    return support::ok();
  }
  Shape four;
  if (shape == Shape{batch, keys})
    four = {batch, 1, 1, keys};
  else if (shape == Shape{batch, rows, keys})
    four = {batch, 1, rows, keys};
  else
    return error("mask of shape ", toText(shape), " is not supported: [", batch, "], [", batch,
                 ", ", keys, "] and [", batch, ", ", rows, ", ", keys, "] are");
  auto mask = paddingMask(call, i, four);
  if (!mask)
    return mask.takeError();
  a.masks.push_back(std::move(*mask));
  return support::ok();
}

//===-- Attention -------------------------------------------------------------===//

// Projects x to q, k and v by one product x W + bias.
Result<Projected> project(NodeAdaptor &call, int64_t heads) {
  Shape x = call.shape(0), w = call.shape(1);
  Shape sizes = call.node.integers("qkv_hidden_sizes").value_or(Shape());
  if (sizes.empty() && w.size() == 2)
    sizes.assign(3, w[1] / 3);
  bool fits = call.isFloat(0) && call.isFloat(1) && x.size() == 3 && w.size() == 2 &&
              sizes.size() == 3 && x[2] == w[0] && heads > 0;
  for (int64_t size : sizes)
    fits = fits && size > 0 && size % heads == 0;
  if (!fits || sizes[0] != sizes[1] || sizes[0] + sizes[1] + sizes[2] != w[1])
    return error("input of shape ", toText(x), ", weights of ", toText(w), " and ", heads,
                 " heads do not fit");
  if (call.has(2) && (!call.isFloat(2) || call.shape(2) != Shape{w[1]}))
    return error("bias of shape ", toText(call.shape(2)), " must be [", w[1], "]");
  auto product = call.einsum("bsd", "de", "bse");
  if (!product)
    return product.takeError();
  Value all = call.has(2) ? call.build.add(*product, call.value(2, UseKind::Bias)) : *product;
  Projected out;
  int64_t start = 0;
  for (size_t i = 0; i < 3; ++i) {
    Value part = columns(call, all, start, sizes[i]);
    out.parts[i] = call.build.reshape(part, {x[0], x[1], heads, sizes[i] / heads});
    start += sizes[i];
  }
  return out;
}

// Appends `fresh` to the keys (`which` 0) or values (1) of a cache [2, batch, heads, past, dim].
Result<Cached> withPacked(NodeAdaptor &call, Value fresh, size_t past, int64_t which) {
  Shape shape(graph::shapeOf(fresh));
  graph::Build &b = call.build;
  Value turned = b.transpose(fresh, {0, 2, 1, 3});
  if (!call.has(past) || countElements(call.shape(past)) == 0)
    return Cached{fresh, turned, 0};
  Shape cache = call.shape(past);
  if (!call.isFloat(past) || cache.size() != 5 || cache[0] != 2 || cache[1] != shape[0] ||
      cache[2] != shape[2] || cache[4] != shape[3])
    return error("past of shape ", toText(cache), " does not fit ", toText(shape),
                 " (batch, rows, heads, dim)");
  Value half = b.slice(call.value(past), 0, which, which + 1);
  half = b.reshape(half, {cache[1], cache[2], cache[3], cache[4]});
  Value present = b.concat({half, turned}, 2);
  return Cached{b.transpose(present, {0, 2, 1, 3}), present, cache[3]};
}

// Builds attention [batch, rows, width] with the attributes that both ops have, the padding mask of
// operand `padding` and the bias of operand 5.
Result<Value> attendTo(NodeAdaptor &call, Value q, const Cached &keys, const Cached &values,
                       size_t padding) {
  Attention a;
  a.q = q;
  a.k = keys.all;
  a.v = values.all;
  a.scale = usualScale(call.node.number("scale", 0), graph::shapeOf(q)[3]);
  a.causal = call.node.integer("unidirectional", 0);
  a.offset = keys.past;
  if (Status s = addPadding(call, padding, a); !s)
    return s.takeError();
  if (Status s = addBias(call, 5, a); !s)
    return s.takeError();
  auto out = attend(call, a);
  if (!out)
    return out.takeError();
  return mergeHeads(call, out->y);
}

ConvertResult convertAttention(NodeAdaptor &call) {
  if (call.node.integer("do_rotary", 0) || call.node.integer("past_present_share_buffer", 0))
    return error("do_rotary and past_present_share_buffer are not supported");
  auto parts = project(call, call.node.integer("num_heads", 0));
  if (!parts)
    return parts.takeError();
  auto keys = withPacked(call, parts->parts[1], 4, 0), values = withPacked(call, parts->parts[2], 4, 1);
  if (!keys)
    return keys.takeError();
  if (!values)
    return values.takeError();
  auto y = attendTo(call, parts->parts[0], *keys, *values, /*padding=*/3);
  if (!y)
    return y.takeError();
  std::vector<Operand> results{*y};
  if (wants(call, 1)) {
    Shape one(graph::shapeOf(keys->present));
    one.insert(one.begin(), 1);
    if (graph::shapeOf(values->present) != graph::shapeOf(keys->present))
      return error("present needs keys and values of one size");
    results.push_back(call.build.concat({call.build.reshape(keys->present, one),
                                         call.build.reshape(values->present, one)},
                                        0));
  }
  return results;
}

//===-- MultiHeadAttention ----------------------------------------------------===//

// Returns query, key and value [batch, rows, heads, dim] of one to three operands.
Result<Projected> unpack(NodeAdaptor &call, int64_t heads) {
  graph::Build &b = call.build;
  auto part = [&](Value packed, int64_t i) { // of [batch, rows, heads, n, dim]
    Shape shape(graph::shapeOf(packed));
    shape.erase(shape.begin() + 3);
    return b.reshape(b.slice(packed, 3, i, i + 1), shape);
  };
  Projected out;
  Shape q = call.shape(0), k = call.shape(1);
  if (!call.isFloat(0) || heads <= 0)
    return error("needs a float query and num_heads");
  if (q.size() == 5) {
    if (q[2] != heads || q[3] != 3 || call.has(1) || call.has(2))
      return error("packed query of shape ", toText(q), " must be [batch, rows, ", heads,
                   ", 3, dim], with no key and value");
    for (int64_t i = 0; i < 3; ++i)
      out.parts[i] = part(call.value(0), i);
    return out;
  }
  if (!call.isFloat(1))
    return error("needs a key");
  for (size_t i = 0; i < 3; ++i) {
    Shape shape = call.shape(i);
    if (i == 1 && k.size() == 5) {
      if (k[2] != heads || k[3] != 2 || call.has(2))
        return error("packed key of shape ", toText(k), " must be [batch, rows, ", heads,
                     ", 2, dim], with no value");
      out.parts[1] = part(call.value(1), 0);
      out.parts[2] = part(call.value(1), 1);
      break;
    }
    if (!call.isFloat(i))
      return error("needs a key and a value");
    if (i > 0 && shape.size() == 4) { // of another sequence: [batch, heads, rows, dim]
      out.parts[i] = b.transpose(call.value(i), {0, 2, 1, 3});
      continue;
    }
    auto split = splitHeads(call, call.value(i), heads);
    if (!split)
      return split.takeError();
    out.parts[i] = *split;
  }
  return out;
}

// Adds the parts of bias vector `i` to q, k and v.
Status addProjectionBias(NodeAdaptor &call, size_t i, Projected &projected) {
  if (!call.has(i))
    return support::ok();
  int64_t total = 0;
  for (Value part : projected.parts)
    total += graph::shapeOf(part)[2] * graph::shapeOf(part)[3];
  if (!call.isFloat(i) || call.shape(i) != Shape{total})
    return error("bias of shape ", toText(call.shape(i)), " must be [", total, "]");
  Value all = call.value(i, UseKind::Bias);
  int64_t start = 0;
  for (Value &part : projected.parts) {
    auto shape = graph::shapeOf(part);
    Value own = call.build.slice(all, 0, start, start + shape[2] * shape[3]);
    start += shape[2] * shape[3];
    part = call.build.add(part, call.build.reshape(own, shape.take_back(2)));
  }
  return support::ok();
}

ConvertResult convertMultiHead(NodeAdaptor &call) {
  if (call.has(8) || call.has(9))
    return error("shared and indirect caches are not supported");
  if (wants(call, 3))
    return error("the output qk is not supported");
  auto parts = unpack(call, call.node.integer("num_heads", 0));
  if (!parts)
    return parts.takeError();
  if (Status s = addProjectionBias(call, 3, *parts); !s)
    return s.takeError();
  auto keys = withCache(call, parts->parts[1], 6), values = withCache(call, parts->parts[2], 7);
  if (!keys)
    return keys.takeError();
  if (!values)
    return values.takeError();
  auto y = attendTo(call, parts->parts[0], *keys, *values, /*padding=*/4);
  if (!y)
    return y.takeError();
  return std::vector<Operand>{*y, keys->present, values->present};
}

} // namespace

ConvertFunction llmc::onnximport::findMicrosoftAttentionConverter(llvm::StringRef op) {
  static const llvm::StringMap<ConvertFunction> table = {
      {"com.microsoft::Attention", convertAttention},
      {"com.microsoft::MultiHeadAttention", convertMultiHead},
  };
  return table.lookup(op);
}
