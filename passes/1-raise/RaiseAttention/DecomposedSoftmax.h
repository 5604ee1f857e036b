// Recognises a softmax that an exporter writes op by op. Tests:
// test/passes/1-raise/raise-attention.mlir (@spelt_softmax, @shifted, @other_sum).
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_DECOMPOSEDSOFTMAX_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_DECOMPOSEDSOFTMAX_H

#include "mlir/IR/PatternMatch.h"

namespace llmc::raise {

// Adds patterns that build graph.softmax, and drop before it a shift that it does itself and behind
// it a guard against the NaN that it never gives.
void populateRaiseSoftmax(mlir::RewritePatternSet &patterns);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_DECOMPOSEDSOFTMAX_H
