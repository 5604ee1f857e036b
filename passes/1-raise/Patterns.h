// Collects the patterns that more than one pass of this phase applies. Tests:
// test/passes/1-raise/fold-constants.mlir, fold-shapes.mlir.
#ifndef LLMC_PASSES_RAISE_PATTERNS_H
#define LLMC_PASSES_RAISE_PATTERNS_H

#include "mlir/IR/PatternMatch.h"

namespace llmc::raise {

// Adds patterns that compute ops on constants and drop arithmetic with neutral numbers.
void populateFoldConstants(mlir::RewritePatternSet &patterns);

// Adds the patterns of FoldShapes, by idea: what moves nothing; merged dimensions; transposes.
void populateDropIdentities(mlir::RewritePatternSet &patterns);
void populateDropLeadingOnes(mlir::RewritePatternSet &patterns);
void populateSinkMerges(mlir::RewritePatternSet &patterns);
void populateSinkTransposes(mlir::RewritePatternSet &patterns);
// Adds patterns that fold transposes into matmul equations, and those of populateSinkTransposes.
void populateAbsorbTransposes(mlir::RewritePatternSet &patterns);

// Applies patterns greedily until nothing changes, without touching regions or the order of ops.
mlir::LogicalResult applyToFixpoint(mlir::Operation *op, mlir::RewritePatternSet &&patterns);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_PATTERNS_H
