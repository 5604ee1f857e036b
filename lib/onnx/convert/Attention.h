// Builds attention for ONNX's Attention and those of com.microsoft.
// Tested by test/conformance.
#ifndef LLMC_LIB_ONNX_CONVERT_ATTENTION_H
#define LLMC_LIB_ONNX_CONVERT_ATTENTION_H

#include "lib/onnx/convert/Formula.h"

namespace llmc::onnximport {

// Represents a mask, known or computed, of four dims: those of the scores [batch, heads, rows,
// keys] or 1. Floats are added to the scores; i1 (or Bool) is true for keys that are attended to.
using Mask = std::variant<HostTensor, mlir::Value>;

// Describes an attention op; rows are the positions of the queries.
struct Attention {
  mlir::Value q;    // [batch, rows, heads, dim]
  mlir::Value k, v; // [batch, keys, kv heads, dim], v's dim may differ
  double scale = 0, softcap = 0;
  // Restricts row i to keys j <= i + offset and, with a window, j > i + offset - window.
  bool causal = false;
  int64_t offset = 0;
  std::optional<int64_t> window;
  std::vector<Mask> masks; // all apply
  mlir::Value sink;        // [heads]: an extra score in each row that has no value
  // Selects the scores that are an output: 0 raw, 1 capped, 2 masked, 3 probabilities.
  std::optional<int64_t> scores;
};

// Holds the results of attention.
struct Attended {
  mlir::Value y;      // [batch, rows, heads, v's dim]
  mlir::Value scores; // [batch, heads, rows, keys], null unless Attention::scores is set
};

// Builds graph.attention, or the same out of matmuls and a softmax if the op cannot express it.
// Known masks that are bands around the diagonal become attributes. Fails if shapes do not fit.
support::Result<Attended> attend(NodeAdaptor &call, Attention attention);

// Returns 1 / sqrt(dim) if `given` is 0 or that value rounded to a float, else `given`.
double usualScale(double given, int64_t dim);

// Returns operand `i` as a mask; it has 1 to 4 dims, aligned at the last. A last dim that is
// shorter than the keys (but not 1) is padded with masked keys. Fails if the operand does not
// broadcast to `scores` = [batch, heads, rows, keys].
support::Result<Mask> maskOperand(NodeAdaptor &call, size_t i, llvm::ArrayRef<int64_t> scores);

// Holds keys (or values) with those of the cache before them.
struct Cached {
  mlir::Value all;     // [batch, past + rows, heads, dim]
  mlir::Value present; // [batch, heads, past + rows, dim]
  int64_t past = 0;
};
// Appends `fresh` [batch, rows, heads, dim] to the cache operand `past` [batch, heads, past, dim],
// which may be left out or empty. Fails if the shapes do not fit.
support::Result<Cached> withCache(NodeAdaptor &call, mlir::Value fresh, size_t past);

// Holds queries, keys and values, [batch, rows, heads, dim] each.
struct Projected {
  mlir::Value parts[3];
};

// Returns whether the node names output `output`.
bool wants(NodeAdaptor &call, int output);
// Reshapes [batch, rows, heads, dim] to [batch, rows, heads * dim].
mlir::Value mergeHeads(NodeAdaptor &call, mlir::Value x);
// Returns columns [start, start + width) of the last dim.
mlir::Value columns(NodeAdaptor &call, mlir::Value x, int64_t start, int64_t width);
// Adds operand `i`, if present, to the masks as a term of the scores. Fails if it does not fit.
support::Status addBias(NodeAdaptor &call, size_t i, Attention &attention);

// Reshapes [batch, rows, width] to [batch, rows, heads, width / heads]. Fails if `x` has another
// rank or `heads` does not divide its width.
support::Result<mlir::Value> splitHeads(NodeAdaptor &call, mlir::Value x, int64_t heads);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_ATTENTION_H
