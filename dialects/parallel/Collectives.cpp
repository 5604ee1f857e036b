#include "dialects/parallel/Collectives.h"

#include "dialects/parallel/Annotations.h"

#include <algorithm>

using namespace mlir;
using namespace llmc;
using namespace llmc::parallel;
using graph::ReduceKind;

//===-- Parts of tensors ------------------------------------------------------===//

Tensor llmc::parallel::slicePart(const Tensor &whole, int64_t dim, int64_t parts, int64_t index) {
  std::vector<int64_t> shape = whole.shape;
  int64_t size = shape[dim] / parts, inner = whole.strides()[dim];
  int64_t outer = whole.size() / (shape[dim] * inner);
  shape[dim] = size;
  Tensor part(shape);
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(whole.data.begin() + (o * parts + index) * size * inner, size * inner,
                part.data.begin() + o * size * inner);
  return part;
}

void llmc::parallel::placePart(Tensor &whole, const Tensor &part, ArrayRef<int64_t> starts) {
  std::vector<int64_t> to = whole.strides(), from = part.strides();
  int64_t row = part.shape.empty() ? 1 : part.shape.back();
  for (int64_t i = 0; i < part.size(); i += row) {
    int64_t at = 0, rest = i;
    for (size_t d = 0; d < part.shape.size(); ++d) {
      at += (starts[d] + rest / from[d]) * to[d];
      rest %= from[d];
    }
    std::copy_n(part.data.begin() + i, row, whole.data.begin() + at);
  }
}

static Tensor concatParts(ArrayRef<const Tensor *> parts, int64_t dim) {
  std::vector<int64_t> shape = parts[0]->shape;
  SmallVector<int64_t> starts(shape.size(), 0);
  int64_t size = shape[dim];
  shape[dim] *= parts.size();
  Tensor whole(shape);
  for (const Tensor *part : parts) {
    placePart(whole, *part, starts);
    starts[dim] += size;
  }
  return whole;
}

// Adds, or takes the maximum of, the parts in their order.
static Tensor reduceParts(ArrayRef<const Tensor *> parts, ReduceKind kind) {
  Tensor total = *parts[0];
  for (const Tensor *part : parts.drop_front())
    for (int64_t i = 0; i < total.size(); ++i)
      total.data[i] = kind == ReduceKind::max ? std::max(total.data[i], part->data[i])
                                              : total.data[i] + part->data[i];
  return total;
}

//===-- What a member gets ----------------------------------------------------===//

using Operands = ArrayRef<const Tensor *>;

Tensor AllReduceOp::evaluateMember(Operands operands, int64_t) {
  return reduceParts(operands, getKind());
}

Tensor AllGatherOp::evaluateMember(Operands operands, int64_t) {
  return concatParts(operands, getDim());
}

Tensor ReduceScatterOp::evaluateMember(Operands operands, int64_t index) {
  return slicePart(reduceParts(operands, getKind()), getDim(), operands.size(), index);
}

Tensor AllToAllOp::evaluateMember(Operands operands, int64_t index) {
  std::vector<Tensor> slices;
  for (const Tensor *operand : operands)
    slices.push_back(slicePart(*operand, getSplit(), operands.size(), index));
  SmallVector<const Tensor *> own;
  for (const Tensor &slice : slices)
    own.push_back(&slice);
  return concatParts(own, getConcat());
}

Tensor ShiftOp::evaluateMember(Operands operands, int64_t index) {
  int64_t members = operands.size();
  return *operands[(index + members - int64_t(getDistance()) % members) % members];
}

Tensor ExchangeRowsOp::evaluateMember(Operands operands, int64_t index) {
  auto countOf = [&](size_t operand, int64_t member) { return static_cast<int64_t>(operands[operand]->data[member]); };
  auto shape = cast<RankedTensorType>(getResult().getType()).getShape();
  Tensor result(shape.vec());
  int64_t members = operands.size() / 3, row = shape.back(), at = 0, room = row ? result.size() / row : 0;
  // Places rows by what was to come, so that those for which there was no room leave a gap.
  for (int64_t member = 0; member < members; ++member) {
    int64_t from = 0, count = std::min(countOf(3 * member + 1, index), countOf(3 * index + 2, member));
    for (int64_t before = 0; before < index; ++before)
      from += countOf(3 * member + 1, before);
    const Tensor &rows = *operands[3 * member];
    count = std::min({count, room - at, row ? rows.size() / row - from : 0});
    if (count > 0)
      std::copy_n(rows.data.begin() + from * row, count * row, result.data.begin() + at * row);
    at += countOf(3 * index + 2, member);
  }
  return result;
}

Tensor AllSliceOp::evaluateMember(Operands operands, int64_t index) {
  return slicePart(*operands[index], getDim(), operands.size(), index);
}

bool AllSliceOp::communicates() { return false; }
