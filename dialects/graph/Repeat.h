// Transforms graph.repeat. Each transformation keeps what is computed
// (test/dialects/graph/Repeats.cpp evaluates before and after) and leaves all other ops in place.
#ifndef LLMC_DIALECTS_GRAPH_REPEAT_H
#define LLMC_DIALECTS_GRAPH_REPEAT_H

#include "dialects/graph/Graph.h"

namespace llmc::graph {

// Splits the loop after its first `at` iterations (0 < at < count) and returns both parts in the
// order in which they run: for a reversed repeat the first part runs the high indices. Slices
// stacked operands, concatenates stacked results, and erases `op`.
std::pair<RepeatOp, RepeatOp> splitRepeat(mlir::OpBuilder &builder, RepeatOp op, int64_t at);

// Marks, as metadata of a fused location, that it has one part for each folded layer.
inline constexpr llvm::StringLiteral kLayersLocation = "layers";

// Returns the part of a location that belongs to one layer; other locations stay whole.
mlir::Location locationOfLayer(mlir::Location loc, int64_t layer);

// Replaces the op by `count` copies of its body, with stacked operands sliced and stacked results
// concatenated (reshapes from and to the leading 1 included). Copy i takes part `firstLayer + i` of
// locations that are marked kLayersLocation. Always succeeds.
mlir::LogicalResult unrollRepeat(mlir::OpBuilder &builder, RepeatOp op, int64_t firstLayer = 0);

// Takes the first iteration (in iteration order) out of the loop; a repeat of 1 is unrolled.
mlir::LogicalResult peelFirst(mlir::OpBuilder &builder, RepeatOp op);

// Replaces `op` by a repeat with `reverse` flipped, whose stacked operands and results are reversed
// by slices and a concat.
RepeatOp reverseRepeat(mlir::OpBuilder &builder, RepeatOp op);

// Adds a stacked result that collects `value`, a value or argument of the body. Returns the repeat
// that replaces `op`, and that result.
std::pair<RepeatOp, mlir::Value> addStackedResult(mlir::OpBuilder &builder, RepeatOp op,
                                                  mlir::Value value);

// Adds a carried value that begins as `initial` and to which each iteration adds `term`, a value of the body.
// Returns the repeat that replaces `op`, and the sum.
std::pair<RepeatOp, mlir::Value> addCarried(mlir::OpBuilder &builder, RepeatOp op, mlir::Value initial,
                                            mlir::Value term);

// Drops the stacked results that nothing reads. Returns the repeat that replaces `op`, or `op` if all
// are read.
RepeatOp dropUnusedResults(mlir::OpBuilder &builder, RepeatOp op);
// Drops the carried values that no stacked result, no carried result in use and no effect depends on, with
// the ops of the body that they alone need. Returns the repeat that replaces `op`, or `op` if all are needed.
RepeatOp dropUnusedCarried(mlir::OpBuilder &builder, RepeatOp op);
// Returns whether nothing uses an op, which has no side effects.
bool isDead(mlir::Operation *op);
// Erases the dead ops of a block, also those that only such ops use.
void eraseDead(mlir::Block &block);
// Drops the stacked and captured operands that the body does not read.
void dropUnusedOperands(RepeatOp op);

// Counts the layers of the model in one iteration of the body: its attentions, at least 1.
int64_t layersInBody(RepeatOp op);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_REPEAT_H
