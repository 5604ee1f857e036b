// What the standard's Attention and those of com.microsoft have in common.
#ifndef LLMC_LIB_ONNX_CONVERT_ATTENTION_H
#define LLMC_LIB_ONNX_CONVERT_ATTENTION_H

#include "lib/onnx/convert/Formula.h"

namespace llmc::onnximport {

// What is added to the scores, or which keys are seen: four dims, those of the
// scores [batch, heads, rows, keys] or 1. Known or computed; i1 (or Bool) tells
// what is seen.
using Mask = std::variant<HostTensor, mlir::Value>;

struct Attention {
  mlir::Value q;    // [batch, rows, heads, dim]
  mlir::Value k, v; // [batch, keys, kv heads, dim], v's dim may differ
  double scale = 0, softcap = 0;
  // Row i sees keys j <= i + offset and, with a window, j > i + offset - window.
  bool causal = false;
  int64_t offset = 0;
  std::optional<int64_t> window;
  std::vector<Mask> masks; // all hold
  mlir::Value sink;        // [heads]: a score more in each row, without a value
  // A fourth output: scores 0 raw, 1 capped, 2 masked, 3 as probabilities.
  std::optional<int64_t> scores;
};

struct Attended {
  mlir::Value y;      // [batch, rows, heads, v's dim]
  mlir::Value scores; // [batch, heads, rows, keys], if asked for
};

// One op where the graph has it, else spelt out. Fails where shapes do not fit.
support::Result<Attended> attend(Call &call, Attention attention);

// 1 / sqrt(dim) where `given` is 0 or is that, rounded to a float.
double usualScale(double given, int64_t dim);

// A mask operand of 2 to 4 dims aligned at the last; a shorter last dim is padded
// with what is not seen. Fails where it does not fit [batch, heads, rows, keys].
support::Result<Mask> maskOperand(Call &call, size_t i, llvm::ArrayRef<int64_t> scores);

// Keys (or values) [batch, rows, heads, dim] behind those of a cache operand
// [batch, heads, past, dim], which may be left out or empty.
struct Cached {
  mlir::Value all;     // [batch, past + rows, heads, dim]
  mlir::Value present; // [batch, heads, past + rows, dim]
  int64_t past = 0;
};
support::Result<Cached> withCache(Call &call, mlir::Value fresh, size_t past);

// Queries, keys and values, [batch, rows, heads, dim] each.
struct Projected {
  mlir::Value parts[3];
};

// Whether the node names output `i`.
bool wants(Call &call, int output);
// [batch, rows, heads, dim] -> [batch, rows, width].
mlir::Value mergeHeads(Call &call, mlir::Value x);
// Columns [start, start + width) of the last dim.
mlir::Value columns(Call &call, mlir::Value x, int64_t start, int64_t width);
// A term that is added to the scores, if operand `i` is there.
support::Status addBias(Call &call, size_t i, Attention &attention);

// Splits the last dim of operand values into heads; fails where it does not divide.
support::Result<mlir::Value> splitHeads(Call &call, mlir::Value x, int64_t heads);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_ATTENTION_H
