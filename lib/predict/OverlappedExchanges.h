// Finds the order in which a plan runs a mixture of experts. Tests: test/numerics/search.py (agrees with simulated plans).
#ifndef LLMC_LIB_PREDICT_OVERLAPPEDEXCHANGES_H
#define LLMC_LIB_PREDICT_OVERLAPPEDEXCHANGES_H

#include "mlir/IR/Operation.h"

#include <cstddef>
#include <vector>

namespace llmc::predict {

// Represents an op of a block that takes time, and the multiplications of a product.
struct TimedOp {
  mlir::Operation *op;
  double multiplications = 0;
};

// Returns the order in which a plan has the ops of a block, by their numbers: what needs no rows of other ranks stands behind
// the exchanges of rows (passes/5-schedule/OverlapExchanges). Empty: the order stays.
std::vector<size_t> overlapExchanges(const std::vector<TimedOp> &ops);

// Returns that of two layers one after the other, of which `ops` are those of each: numbers of the second are behind those of the
// first. Empty where the ops of one layer stay apart from those of the other.
std::vector<size_t> overlapLayers(const std::vector<TimedOp> &ops);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_OVERLAPPEDEXCHANGES_H
