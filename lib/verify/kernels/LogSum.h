// Computes the log-sum-exp operand of an attention gradient from its q and k. Tested by
// test/verify/LogSumTest.cpp.
#ifndef LLMC_LIB_VERIFY_KERNELS_LOGSUM_H
#define LLMC_LIB_VERIFY_KERNELS_LOGSUM_H

#include "dialects/graph/Graph.h"
#include "lib/verify/kernels/Region.h"

namespace llmc::verify {

// Points to the dense operands of the op: q [batch, rows, heads, dim], k [batch, keys, kv_heads,
// dim] and, if it has them, one of the two forms of a mask, and the positions of rows and keys.
struct AttentionOperands {
  const float *q, *k;
  const float *addedMask = nullptr;
  const uint8_t *mask = nullptr;
  const int64_t *rowPositions = nullptr, *keyPositions = nullptr;
};

// Writes lse [batch, rows, heads]: the exact value for the heads in `needed` (its region), and
// for the others, whose results are not compared, a number above all scores.
void writeLogSum(graph::AttentionGradOp op, const AttentionOperands &operands, const Region &needed,
                 float *lse);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_LOGSUM_H
