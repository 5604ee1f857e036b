// The rewrites that more than one pass of this phase ends with.
#ifndef LLMC_PASSES_RAISE_PATTERNS_H
#define LLMC_PASSES_RAISE_PATTERNS_H

#include "mlir/IR/PatternMatch.h"

namespace llmc::raise {

// Computes ops on constants; drops arithmetic with neutral numbers.
void populateFoldConstants(mlir::RewritePatternSet &patterns);

// FoldShapes, by idea: what moves nothing; merged dimensions; transposes.
void populateDropIdentities(mlir::RewritePatternSet &patterns);
void populateDropLeadingOnes(mlir::RewritePatternSet &patterns);
void populateSinkMerges(mlir::RewritePatternSet &patterns);
void populateSinkTransposes(mlir::RewritePatternSet &patterns);
// These two together.
void populateAbsorbTransposes(mlir::RewritePatternSet &patterns);

// Applies to a fixpoint, without touching regions or order.
mlir::LogicalResult applyToFixpoint(mlir::Operation *op, mlir::RewritePatternSet &&patterns);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_PATTERNS_H
