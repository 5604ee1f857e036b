// Answers questions about the buffers of a plan. Tests: test/passes/5-schedule/write-first.mlir,
// assign-arena.mlir.
#ifndef LLMC_PASSES_SCHEDULE_BUFFERS_H
#define LLMC_PASSES_SCHEDULE_BUFFERS_H

#include "dialects/plan/Plan.h"

#include <utility>

namespace llmc {

inline int64_t bytesOf(mlir::Value buffer) {
  return mlir::cast<plan::BufferType>(buffer.getType()).getByteSize();
}

// Returns the type of a buffer of one dimension that has `bytes` bytes.
inline plan::BufferType vectorOf(mlir::Type element, int64_t bytes) {
  int64_t size = element.getIntOrFloatBitWidth() / 8;
  return plan::BufferType::get(element.getContext(),
                               mlir::RankedTensorType::get({bytes / size}, element));
}

// Returns the root of a view, and the byte offset in it at which the view begins; null and 0 if
// `buffer` is no result of plan.buffer.
inline std::pair<plan::BufferOp, int64_t> rootOf(mlir::Value buffer) {
  auto op = buffer.getDefiningOp<plan::BufferOp>();
  int64_t displacement = 0;
  while (op && op.getParent()) {
    displacement += op.getDisplacement().value_or(0);
    op = op.getParent().getDefiningOp<plan::BufferOp>();
  }
  return {op, displacement};
}

// Returns the buffers that an instruction writes; empty if it writes none.
inline llvm::SmallVector<mlir::Value> writtenBy(mlir::Operation &op) {
  if (auto launch = mlir::dyn_cast<plan::LaunchOp>(op))
    return llvm::to_vector(launch.getWrites());
  if (auto matmul = mlir::dyn_cast<plan::MatmulOp>(op))
    return {matmul.getOut()};
  if (auto matmul = mlir::dyn_cast<plan::GroupedMatmulOp>(op))
    return {matmul.getOut()};
  if (auto copy = mlir::dyn_cast<plan::CopyOp>(op))
    return {copy.getDst()};
  if (auto fill = mlir::dyn_cast<plan::FillOp>(op))
    return {fill.getDst()};
  if (auto feed = mlir::dyn_cast<plan::FeedOp>(op))
    return {feed.getDst()};
  if (auto collective = mlir::dyn_cast<plan::CollectiveOp>(op))
    return {collective.getDst()};
  if (auto recv = mlir::dyn_cast<plan::RecvOp>(op))
    return llvm::to_vector(recv.getParts());
  return {};
}

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUFFERS_H
