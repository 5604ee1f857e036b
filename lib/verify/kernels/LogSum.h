// The log-sum-exp operand of an attention's gradient: the one that its q and k lead to.
#ifndef LLMC_LIB_VERIFY_KERNELS_LOGSUM_H
#define LLMC_LIB_VERIFY_KERNELS_LOGSUM_H

#include "dialects/graph/Graph.h"
#include "lib/verify/kernels/Region.h"

namespace llmc::verify {

// Dense q [batch, rows, heads, dim], k [batch, keys, kv_heads, dim] and, if there is one, mask
// (one of the two) of `op`.
struct AttentionOperands {
  const float *q, *k;
  const float *addedMask = nullptr;
  const uint8_t *mask = nullptr;
};

// Writes lse [batch, rows, heads]: the true one for the heads of `needed` (its region), and
// for others, of which nobody looks at results, a number above all scores.
void writeLogSum(graph::AttentionGradOp op, const AttentionOperands &operands, const Region &needed,
                 float *lse);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_LOGSUM_H
