// Brings graph.attention into one form, whichever code built it. What follows a rule (causal,
// offset, window) is in the attributes, in their simplest values, and no mask repeats it. Any other
// mask has four dims, is i1 where it adds 0 or -inf, and is not broadcast except to the keys.
// Positive factors of q and k are in the scale. Keys and values have their own heads, which no op
// repeats for the query heads, and q, k and v are reshaped and transposed by the fewest ops. Test:
// test/passes/1-raise/raise-attention.mlir.
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_SIMPLIFYATTENTION_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_SIMPLIFYATTENTION_H

#include "mlir/IR/PatternMatch.h"
#include "passes/1-raise/RaiseAttention/Masks.h"

namespace llmc::raise {

// Adds the patterns. They change attention ops in place and insert ops before them. `reader` must
// outlive them.
void populateSimplifyAttention(mlir::RewritePatternSet &patterns, MaskReader &reader);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_SIMPLIFYATTENTION_H
