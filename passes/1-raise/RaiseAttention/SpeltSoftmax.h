// Softmax where an exporter spells it out.
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_SPELTSOFTMAX_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_SPELTSOFTMAX_H

#include "mlir/IR/PatternMatch.h"

namespace llmc::raise {

// To graph.softmax, without what it does itself and without a guard against the NaN
// that it never gives.
void populateSpeltSoftmax(mlir::RewritePatternSet &patterns);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_SPELTSOFTMAX_H
