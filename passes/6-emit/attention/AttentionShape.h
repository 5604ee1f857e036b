// Describes the geometry of an attention op, and which keys a row sees. Cases:
// test/passes/6-emit/AttentionCases.cpp.
#ifndef LLMC_PASSES_EMIT_ATTENTION_ATTENTIONSHAPE_H
#define LLMC_PASSES_EMIT_ATTENTION_ATTENTIONSHAPE_H

#include "passes/6-emit/kernel/Kernel.h"
#include <optional>

namespace llmc::emit {

struct AttentionShape {
  int64_t batch, rows, heads, keys, kvHeads, dim;
  bool causal;
  int64_t offset;
  std::optional<int64_t> window;
  float scale;
  double softcap; // 0: none
  Value mask;     // null: none
  llvm::SmallVector<Value, 2> positions; // of rows and of keys, by which `causal` goes; or none
  double dropout; // 0: none
  int64_t place;  // of the dropout in its layer
  llvm::SmallVector<Value, 5> draws; // key, layer, position, head, place of the key
  Type element;   // of q, k, v and all of their shapes in memory

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
    positions.assign(op.getPositions().begin(), op.getPositions().end());
    dropout = op.getDropout().convertToDouble();
    place = op.getPlace();
    draws.assign(op.getDraws().begin(), op.getDraws().end());
    element = mlir::getElementTypeOrSelf(op.getQ());
  }
  // Returns whether `tensors` have the element type of q and `lse` is float32.
  bool agrees(mlir::ValueRange tensors, Value lse) const;
  // Returns the keys [first, second) that row `i` can see: all of them with positions, which hide
  // single keys.
  std::pair<Value, Value> visible(Kernel &k, Value i) const;
  // Bounds what row i sees: key j <= i + ahead() and, in a window, j >= i + behind(). Both are
  // clamped so that nothing overflows.
  int64_t ahead() const { return std::min(offset, keys); }
  int64_t behind() const { return std::min(offset - *window + 1, keys); }
  // Returns how many queries are processed together: enough to use what is read of k and v
  // often, so few that they and their results stay in cache. It is a multiple of 16, the same
  // for all targets.
  int64_t chunk() const;
  // Returns the elements between keys of one head, or between queries of one head.
  int64_t keyStride() const { return kvHeads * dim; }
  int64_t queryStride() const { return heads * dim; }
  // Returns the last position that row `i` sees, and the position of key `j`: an i64, clamped so that
  // an i32 holds it and its distance to another.
  Value lastSeen(Kernel &k, Value i) const;
  Value positionOfKey(Kernel &k, Value j) const;
  // Returns how many positions a window has, from the last one that is seen down.
  int64_t reach() const { return std::min<int64_t>(*window, kFarthest); }
  static constexpr int64_t kFarthest = int64_t(1) << 30;
  // Returns element `at` of draw `i`, an i64.
  Value drawn(Kernel &k, unsigned i, Value at) const;
  // Returns the element number of a key of a head, an i64.
  Value drawnElement(Kernel &k, Value head, Value key) const {
    return k.add(drawn(k, 3, head), drawn(k, 4, key));
  }
  // Returns the offset in the mask, in elements, of the first key of row `i`.
  Value maskStart(Kernel &k, Value batch, Value head, Value i) const;

private:
  Value element64(Kernel &k, Value vector, Value at) const;
  AttentionShape(mlir::RankedTensorType q, mlir::RankedTensorType k);
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_ATTENTION_ATTENTIONSHAPE_H
