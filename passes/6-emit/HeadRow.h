// Rows of one attention head in registers: `dim` floats as vectors.
#ifndef LLMC_PASSES_EMIT_HEADROW_H
#define LLMC_PASSES_EMIT_HEADROW_H

#include "passes/6-emit/Kernel.h"
#include "passes/6-emit/Math.h"
#include <optional>

namespace llmc::emit {

struct HeadRow {
  Kernel &k;
  int64_t dim;
  using Row = llvm::SmallVector<Value, 8>;

  Row load(Value base, Value start) const;
  void store(const Row &row, Value base, Value start) const;
  Row zero() const;
  Row scale(const Row &row, Value factor) const;
  // sum + factor * row
  Row axpy(Value factor, const Row &row, mlir::ValueRange sum) const;
  // The product with the row at `start`, added in a fixed order.
  Value dot(const Row &row, Value base, Value start) const;
  Value dot(const Row &x, const Row &y) const;

private:
  // (offset, width) of the vectors that make up a row.
  llvm::SmallVector<std::pair<int64_t, unsigned>> chunks() const;
  Math math() const { return Math{k.b, k.loc}; }
};

// Keys are taken in blocks of so many: their scores lie on the stack.
inline constexpr int64_t kKeyBlock = 64;

// An attention op: geometry, and which keys a row sees.
struct AttentionShape {
  int64_t batch, rows, heads, keys, kvHeads, dim;
  bool causal;
  int64_t offset;
  std::optional<int64_t> window;
  float scale;
  double softcap; // 0: none
  Value mask;     // null: none

  template <typename Op>
  explicit AttentionShape(Op op)
      : AttentionShape(mlir::cast<mlir::RankedTensorType>(op.getQ().getType()),
                       mlir::cast<mlir::RankedTensorType>(op.getK().getType())) {
    causal = op.getCausal();
    offset = op.getOffset();
    if (auto size = op.getWindow())
      window = *size;
    scale = static_cast<float>(op.getScale().convertToDouble());
    softcap = op.getSoftcap().convertToDouble();
    mask = op.getMask();
  }
  // Row `i` can see keys of [first, second) alone.
  std::pair<Value, Value> visible(Kernel &k, Value i) const;

private:
  AttentionShape(mlir::RankedTensorType q, mlir::RankedTensorType k);
};

// Turns products of a query row with a block of keys into scores, where that takes
// more than a factor: softcap, then the mask.
struct ScoreRule {
  Kernel &k;
  const AttentionShape &shape;
  bool isPlain() const { return !shape.mask && !shape.softcap; }
  // Scores of keys [from, to) at `scores`, in place; `i` is the query row. `factors`,
  // if given, gets the slope of softcap at each.
  void apply(Value scores, Value factors, Value from, Value to, Value batch, Value head,
             Value i) const;

private:
  Value maskStart(Value batch, Value head, Value i) const;
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_HEADROW_H
