// Replaces, in inference, a mask that hides keys by a finite number, of which one part is a rule, by one
// that hides wholly: the rule moves into the attention, and padding that an input gives stays one
// number a key. Rows that see no key weigh all keys alike, as the finite number made them. Tests:
// test/passes/1-raise/raise-attention-guard.mlir, test/numerics/masks.py.
#ifndef LLMC_PASSES_RAISE_RAISEATTENTION_GUARDROWS_H
#define LLMC_PASSES_RAISE_RAISEATTENTION_GUARDROWS_H

#include "mlir/IR/PatternMatch.h"
#include "passes/1-raise/RaiseAttention/Masks.h"

namespace llmc::raise {

// Adds the pattern; `reader` must outlive it. It is for modules that infer: a gradient would flow
// through the scores of such rows.
void populateGuardRows(mlir::RewritePatternSet &patterns, MaskReader &reader);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEATTENTION_GUARDROWS_H
