// Scores the keys of a row in SIMD lanes, one head at a time.
#include "lib/verify/kernels/LogSum.h"

#include "dialects/graph/Build.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace llmc::verify {
namespace {

// Holds the lanes of one vector, so that the keys of a row are scored at memory bandwidth.
typedef float Lanes __attribute__((vector_size(32), aligned(4)));
constexpr int64_t kLanes = 8;
constexpr float kAbsent = -std::numeric_limits<float>::infinity();

// Computes the log-sum-exp of one head of one batch row.
class Head {
public:
  Head(graph::AttentionGradOp op, const AttentionOperands &operands, int64_t b, int64_t head)
      : op(op), operands(operands), b(b), head(head) {
    ArrayRef<int64_t> q = graph::shapeOf(op.getQ()), k = graph::shapeOf(op.getK());
    rows = q[1], heads = q[2], dim = q[3], keys = k[1], kvHeads = k[2];
    offset = op.getOffset(), window = op.getWindow().value_or(0);
    padded = (keys + kLanes - 1) / kLanes * kLanes;
    scale = static_cast<float>(op.getScale().convertToDouble());
    softcap = static_cast<float>(op.getSoftcap().convertToDouble());
    if (op.getMask())
      maskShape = graph::shapeOf(op.getMask());
  }

  void writeExact(float *lse);
  void writeBound(float *lse) const;

private:
  float norm(const float *x) const {
    float squares = 0;
    for (int64_t d = 0; d < dim; ++d)
      squares += x[d] * x[d];
    return std::sqrt(squares);
  }
  const float *query(int64_t row) const {
    return operands.q + ((b * rows + row) * heads + head) * dim;
  }
  const float *key(int64_t j) const {
    return operands.k + ((b * keys + j) * kvHeads + head / (heads / kvHeads)) * dim;
  }
  float &at(float *lse, int64_t row) const { return lse[(b * rows + row) * heads + head]; }
  // Returns whether positions, if there are any, let the row see the key.
  bool isSeen(int64_t row, int64_t j) const {
    if (!operands.rowPositions)
      return true;
    int64_t ahead = operands.rowPositions[row] + offset - operands.keyPositions[j];
    return ahead >= 0 && (window == 0 || ahead < window);
  }
  // Returns the score after softcap and mask.
  float masked(float score, int64_t row, int64_t j) const;
  void score(const float *query, int64_t last);

  graph::AttentionGradOp op;
  const AttentionOperands &operands;
  int64_t b, head, rows, heads, dim, keys, kvHeads, padded, offset, window; // window 0: none
  float scale, softcap;
  ArrayRef<int64_t> maskShape;
  std::vector<float> turned, scores; // keys transposed, [dim, padded keys]; scores of one row
};

} // namespace

float Head::masked(float score, int64_t row, int64_t j) const {
  if (softcap > 0)
    score = softcap * std::tanh(score / softcap);
  if (maskShape.empty())
    return score;
  int64_t at = 0;
  const int64_t indices[] = {b, head, row, j};
  for (auto [size, index] : llvm::zip(maskShape, indices))
    at = at * size + (size == 1 ? 0 : index);
  if (operands.addedMask)
    return score + operands.addedMask[at];
  return operands.mask[at] ? score : kAbsent;
}

void Head::score(const float *query, int64_t last) {
  for (int64_t j = 0; j < last; j += kLanes) {
    Lanes sum = {};
    for (int64_t d = 0; d < dim; ++d)
      sum += query[d] * *reinterpret_cast<const Lanes *>(&turned[d * padded + j]);
    *reinterpret_cast<Lanes *>(&scores[j]) = sum * scale;
  }
}

void Head::writeExact(float *lse) {
  turned.assign(dim * padded, 0);
  scores.resize(padded);
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t d = 0; d < dim; ++d)
      turned[d * padded + j] = key(j)[d];
  for (int64_t row = 0; row < rows; ++row) {
    bool placed = operands.rowPositions;
    int64_t last = op.getCausal() && !placed ? std::min(row + offset + 1, keys) : keys;
    int64_t first = window && !placed ? std::clamp<int64_t>(row + offset - window + 1, 0, keys) : 0;
    score(query(row), last);
    float largest = kAbsent;
    for (int64_t j = first; j < last; ++j)
      largest = std::max(largest, scores[j] = isSeen(row, j) ? masked(scores[j], row, j) : kAbsent);
    double sum = 0;
    for (int64_t j = first; j < last && largest > kAbsent; ++j)
      sum += std::exp(scores[j] - largest);
    at(lse, row) = largest > kAbsent ? largest + static_cast<float>(std::log(sum)) : kAbsent;
  }
}

// Writes an upper bound of all scores of a row, by |q.k| <= |q| |k|.
void Head::writeBound(float *lse) const {
  float longest = 0, mask = 0;
  for (int64_t j = 0; j < keys; ++j)
    longest = std::max(longest, norm(key(j)));
  if (operands.addedMask) {
    int64_t count = 1;
    for (int64_t size : maskShape)
      count *= size;
    mask = std::max(0.0f, *std::max_element(operands.addedMask, operands.addedMask + count));
  }
  for (int64_t row = 0; row < rows; ++row)
    at(lse, row) = std::fabs(scale) * norm(query(row)) * longest + mask + 1;
}

void writeLogSum(graph::AttentionGradOp op, const AttentionOperands &operands, const Region &needed,
                 float *lse) {
  ArrayRef<int64_t> q = graph::shapeOf(op.getQ());
  auto holds = [](const IndexSet &picks, int64_t index) {
    return !picks.some || std::binary_search(picks.some->begin(), picks.some->end(), index);
  };
  for (int64_t b = 0; b < q[0]; ++b)
    for (int64_t head = 0; head < q[2]; ++head) {
      Head one(op, operands, b, head);
      if (needed.size() == 3 && holds(needed[0], b) && holds(needed[2], head))
        one.writeExact(lse);
      else
        one.writeBound(lse);
    }
}

} // namespace llmc::verify
