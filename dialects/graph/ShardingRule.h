// Describes which dimensions of an op's operands and results may be cut together
// (test/dialects/graph/Sharding.cpp): they share factors, the dimensions of the op's loop nest.
//
// "bsd,de->bse" has factors b, s, d, e. A mesh axis given to a factor cuts every dimension that
// carries the factor; given to a reduced factor it leaves the results unreduced over that axis.
#ifndef LLMC_DIALECTS_GRAPH_SHARDINGRULE_H
#define LLMC_DIALECTS_GRAPH_SHARDINGRULE_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace llmc::graph {

enum class FactorKind {
  Parallel, // may be cut freely; the op runs on the part
  // Leaves partial sums, if cut, in every result that lacks it; a result that carries it is cut
  // (dq of grouped attention_grad).
  ReducedSum,
  ReducedMax, // cutting it leaves partial maxima in the results
  Replicated, // must not be cut (softmax dim, a sliced dim, ...)
  // Takes axes that cut other factors too: along them a rank has the rows of its own part and
  // no others (experts, where rows are at their ranks), so that the part leaves nothing to add up.
  Owned,
};

struct Factor {
  int64_t size;
  FactorKind kind;
};

// Lists the factors that one dimension of a tensor is made of, major first. Most dimensions have
// one; a merged dimension of a reshape has several; a broadcast dimension of size 1 has none.
using DimFactors = llvm::SmallVector<unsigned, 1>;
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

struct ShardingRule {
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<TensorFactors, 3> operands; // operand -> dim -> factors
  llvm::SmallVector<TensorFactors, 2> results;
  // Lists alternatives in which the op maps partial sums to partial sums: all operands of one inner
  // list are unreduced over the same axes, and the others are reduced (add: {0,1} together; mul:
  // one at a time; transpose, reshape: {0}).
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linearIn;
  // Identifies the factor whose cut needs the op's optional `offset` operand (the global index at
  // which the local part begins); -1 if none does. A gather from a cut table gives zeros for rows
  // of other ranks, so its rows are a ReducedSum although the uncut op has no reduction over them.
  int offsetFactor = -1;

  unsigned addFactor(int64_t size, FactorKind kind = FactorKind::Parallel) {
    factors.push_back({size, kind});
    return factors.size() - 1;
  }
};

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_SHARDINGRULE_H
