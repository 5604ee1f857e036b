// Turns an equation over letters into calls with one batch, m, n and k each. Its test is
// test/passes/6-emit/WritePlanTest.cpp.
#ifndef LLMC_PASSES_EMIT_MATMUL_EQUATION_H
#define LLMC_PASSES_EMIT_MATMUL_EQUATION_H

#include "passes/6-emit/kernel/KernelEmitters.h"

namespace llmc::emit {

// Holds the calls that compute one equation, all of one shape. There are several where letters
// lie apart in memory and so cannot be one dimension of a call.
struct MatmulCalls {
  MatmulShape shape;    // of each call
  bool swapped = false; // A is the right operand, B the left one
  struct Call {
    int64_t a, b, c; // first element of each operand
    bool accumulate; // adds to what an earlier call wrote
  };
  llvm::SmallVector<Call> calls;
};

// Returns the calls of `equation` over operands of these shapes. Fails, without a diagnostic, if
// the letters do not match the ranks.
mlir::FailureOr<MatmulCalls> matmulCalls(llvm::StringRef equation, llvm::ArrayRef<int64_t> lhs,
                                         llvm::ArrayRef<int64_t> rhs, llvm::ArrayRef<int64_t> out,
                                         bool accumulate);

// Describes a grouped product as planfile::Matmul does: the batch is that of the experts, and m or k counts
// the routes. Its operand that has no experts has batch stride 0.
MatmulShape groupedShape(plan::GroupedMatmulOp op);

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_MATMUL_EQUATION_H
