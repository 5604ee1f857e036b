#include "passes/6-emit/attention/AttentionShape.h"

using namespace mlir;

namespace llmc::emit {

AttentionShape::AttentionShape(RankedTensorType q, RankedTensorType k)
    : batch(q.getDimSize(0)), rows(q.getDimSize(1)), heads(q.getDimSize(2)), keys(k.getDimSize(1)),
      kvHeads(k.getDimSize(2)), dim(q.getDimSize(3)) {}

bool AttentionShape::agrees(ValueRange tensors, Value lse) const {
  return getElementTypeOrSelf(lse).isF32() && llvm::all_of(tensors, [&](Value tensor) {
           return getElementTypeOrSelf(tensor) == element;
         });
}

std::pair<Value, Value> AttentionShape::visible(Kernel &k, Value i) const {
  if (!causal || !positions.empty())
    return {k.index(0), k.index(keys)};
  Value end = k.min(k.add(i, k.index(ahead() + 1)), k.index(keys));
  if (!window)
    return {k.index(0), end};
  return {k.max(k.add(i, k.index(behind())), k.index(0)), end};
}

int64_t AttentionShape::chunk() const {
  constexpr int64_t kRows = 64, kStep = 16, kElements = 16384;
  int64_t most = std::clamp(kElements / std::max<int64_t>(dim, 1) / kStep * kStep, kStep, kRows);
  int64_t chunks = std::max<int64_t>(llvm::divideCeil(rows, most), 1);
  return std::max(llvm::alignTo(llvm::divideCeil(rows, chunks), kStep), uint64_t(kStep));
}

Value AttentionShape::element64(Kernel &k, Value vector, Value at) const {
  Value base = k.buffer(cast<BlockArgument>(vector).getArgNumber());
  return k.load(k.address(base, at, k.b.getI64Type()), k.b.getI64Type());
}

Value AttentionShape::drawn(Kernel &k, unsigned i, Value at) const { return element64(k, draws[i], at); }

static Value clampPosition(Kernel &k, Value position) {
  constexpr int64_t most = AttentionShape::kFarthest - 1;
  return k.min(k.max(position, k.index(-most)), k.index(most));
}

// Clamps the offset first, so that no sum overflows.
Value AttentionShape::lastSeen(Kernel &k, Value i) const {
  return clampPosition(k, k.add(clampPosition(k, element64(k, positions[0], i)), k.index(std::min(offset, kFarthest))));
}

Value AttentionShape::positionOfKey(Kernel &k, Value j) const {
  return clampPosition(k, element64(k, positions[1], j));
}

Value AttentionShape::maskStart(Kernel &k, Value batch, Value head, Value i) const {
  auto sizes = cast<RankedTensorType>(mask.getType()).getShape();
  Value start = k.index(0), places[] = {batch, head, i};
  for (int d = 0; d < 3; ++d)
    start = sizes[d] == 1 ? start : k.add(k.mul(start, sizes[d]), places[d]);
  return k.mul(start, sizes[3]);
}

} // namespace llmc::emit
