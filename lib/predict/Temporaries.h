// Measures what is alive while a block is computed. Tests: test/predict/PlanTableTest.cpp.
#ifndef LLMC_LIB_PREDICT_TEMPORARIES_H
#define LLMC_LIB_PREDICT_TEMPORARIES_H

#include "mlir/IR/Block.h"

namespace llmc::predict {

// Returns the most bytes of values that the ops of a block make and that later ones of it read, at one time. Counts a
// value once with its views, what the block gives away not at all, and folded layers with what is alive in one of them.
double temporaryBytes(mlir::Block &block);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_TEMPORARIES_H
