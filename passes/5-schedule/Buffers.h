// Questions about the buffers of a plan.
#ifndef LLMC_PASSES_SCHEDULE_BUFFERS_H
#define LLMC_PASSES_SCHEDULE_BUFFERS_H

#include "dialects/plan/Plan.h"

#include <utility>

namespace llmc {

inline int64_t bytesOf(mlir::Value buffer) {
  return mlir::cast<plan::BufferType>(buffer.getType()).getByteSize();
}

// The root of a view, and how many bytes into it the view begins.
inline std::pair<plan::BufferOp, int64_t> rootOf(mlir::Value buffer) {
  auto op = buffer.getDefiningOp<plan::BufferOp>();
  int64_t displacement = 0;
  while (op && op.getParent()) {
    displacement += op.getDisplacement().value_or(0);
    op = op.getParent().getDefiningOp<plan::BufferOp>();
  }
  return {op, displacement};
}

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUFFERS_H
