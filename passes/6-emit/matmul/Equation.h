// From an equation over letters to calls with one batch, m, n and k each.
#ifndef LLMC_PASSES_EMIT_MATMUL_EQUATION_H
#define LLMC_PASSES_EMIT_MATMUL_EQUATION_H

#include "passes/6-emit/Families.h"

namespace llmc::emit {

// Letters that lie apart in memory cannot be one dimension of a call; then the
// sum is several calls of one shape.
struct MatmulCalls {
  MatmulShape shape;    // of each call
  bool swapped = false; // A is the right operand, B the left one
  struct Call {
    int64_t a, b, c; // first element of each operand
    bool accumulate; // adds to what an earlier call wrote
  };
  llvm::SmallVector<Call> calls;
};

// Fails if the equation does not fit the shapes.
mlir::FailureOr<MatmulCalls> matmulCalls(llvm::StringRef equation, llvm::ArrayRef<int64_t> lhs,
                                         llvm::ArrayRef<int64_t> rhs, llvm::ArrayRef<int64_t> out,
                                         bool accumulate);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_MATMUL_EQUATION_H
