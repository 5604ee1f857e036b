// Brings graph.attention into one form, whichever code built it.
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_SIMPLIFYATTENTION_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_SIMPLIFYATTENTION_H

#include "mlir/IR/PatternMatch.h"
#include "passes/1-raise/RaiseAttention/Masks.h"

namespace llmc::raise {

// Adds the patterns. `reader` must outlive them.
void populateSimplifyAttention(mlir::RewritePatternSet &patterns, MaskReader &reader);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_SIMPLIFYATTENTION_H
