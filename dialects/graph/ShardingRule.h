// Factors: the loop dimensions that an op's operands and results share.
//
// "bsd,de->bse" has factors b, s, d, e. A mesh axis given to a factor cuts every
// dimension that carries the factor; given to a reduced factor it leaves the
// results unreduced over that axis.
#ifndef LLMC_DIALECTS_GRAPH_SHARDINGRULE_H
#define LLMC_DIALECTS_GRAPH_SHARDINGRULE_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace llmc::graph {

enum class FactorKind {
  Parallel,   // may be cut freely; the op runs on the part
  ReducedSum, // cutting it leaves partial sums in every result that lacks it; a
              // result that carries it is cut (dq of grouped attention_grad)
  ReducedMax, // cutting it leaves partial maxima in the results
  Replicated, // must not be cut (softmax dim, a sliced dim, ...)
};

struct Factor {
  int64_t size;
  FactorKind kind;
};

// One dimension of a tensor, as the factors it is made of, major first. Most
// dimensions have one; a merged dimension of a reshape has several; a
// broadcast dimension of size 1 has none.
using DimFactors = llvm::SmallVector<unsigned, 1>;
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

struct ShardingRule {
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<TensorFactors, 3> operands; // operand -> dim -> factors
  llvm::SmallVector<TensorFactors, 2> results;
  // The op maps partial sums to partial sums in these operands, if all of the
  // listed operands are unreduced over the same axes and the others reduced
  // (add: {0,1} together; mul: one at a time; transpose, reshape: {0}).
  // Each inner list is one alternative.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linearIn;
  // Cutting this factor needs the op's optional `offset` operand (the global
  // index at which the local part begins): factor index, or -1.
  int offsetFactor = -1;
  // If cut, results of ReducedSum kind appear although the factor is in no
  // reduction loop of the plain op: gather from a cut table gives zeros for
  // foreign rows. (The kind of that factor is ReducedSum already.)

  unsigned addFactor(int64_t size, FactorKind kind = FactorKind::Parallel) {
    factors.push_back({size, kind});
    return factors.size() - 1;
  }
};

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_SHARDINGRULE_H
