// Builds the draws of dropout out of integer arithmetic, so that all targets drop the same elements
// as lib/support/Dropout.h says. Cases: test/passes/6-emit/GroupCases.cpp, AttentionCases.cpp.
#ifndef LLMC_PASSES_EMIT_KERNEL_DROPOUT_H
#define LLMC_PASSES_EMIT_KERNEL_DROPOUT_H

#include "passes/6-emit/kernel/Math.h"

namespace llmc::emit {

// Describes the elements at a point, as i64 scalars or vectors of one width.
struct DropoutDraw {
  double rate;
  int64_t place;
  mlir::Value key, layer, position, element;

  // Returns which elements are kept, as i1; what those are multiplied by, of the type `floats`.
  mlir::Value keeps(Math m) const;
  mlir::Value scale(Math m, mlir::Type floats) const;
  // Returns the factor of an element: its scale, or 0.
  mlir::Value factor(Math m, mlir::Type floats) const;
};

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_DROPOUT_H
