// Splits an attention whose mask is a rule for some rows and another one for others, into one attention
// for each: a prefix that sees itself, documents packed into one sequence. No mask is left then, and
// the keys that a part does not see are not read. Tests:
// test/passes/1-raise/raise-attention-symbolic.mlir (@prefix, @documents).
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_SPLITROWS_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_SPLITROWS_H

#include "mlir/IR/PatternMatch.h"

namespace llmc::raise {

// Adds the pattern. It is for attentions that no other pattern changes any more: what moves their
// keys is not seen through the slices.
void populateSplitRows(mlir::RewritePatternSet &patterns);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_SPLITROWS_H
