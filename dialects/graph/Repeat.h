// The algebra of graph.repeat. Each transformation keeps the meaning (a test
// evaluates before and after) and leaves everything else in place.
#ifndef LLMC_DIALECTS_GRAPH_REPEAT_H
#define LLMC_DIALECTS_GRAPH_REPEAT_H

#include "dialects/graph/Graph.h"

namespace llmc::graph {

// repeat N = repeat `at` ; repeat N - at (0 < at < N; in iteration order of the
// op: for a reversed repeat the first part runs the high indices). Stacked
// operands are sliced, stacked results concatenated.
std::pair<RepeatOp, RepeatOp> splitRepeat(mlir::OpBuilder &builder, RepeatOp op, int64_t at);

// A fused location with this metadata has one part for each folded layer.
inline constexpr llvm::StringLiteral kLayersLocation = "layers";

// Replaces the op by `count` copies of its body, stacked operands sliced and
// stacked results concatenated (reshapes to and from the leading 1 included).
// Copy i takes part `firstLayer + i` of locations that name layers.
mlir::LogicalResult unrollRepeat(mlir::OpBuilder &builder, RepeatOp op, int64_t firstLayer = 0);

// Takes the first iteration (in iteration order) out of the loop.
mlir::LogicalResult peelFirst(mlir::OpBuilder &builder, RepeatOp op);

// Exchanges `reverse` by reversing all stacked operands and results (slice and concat).
RepeatOp reverseRepeat(mlir::OpBuilder &builder, RepeatOp op);

// Adds a stacked result that collects `value`, defined in the body (or a body
// argument), and returns the new op and that result.
std::pair<RepeatOp, mlir::Value> addStackedResult(mlir::OpBuilder &builder, RepeatOp op,
                                                  mlir::Value value);

// How many layers of the model one run of the body is: its attentions, at least 1.
int64_t layersInBody(RepeatOp op);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_REPEAT_H
