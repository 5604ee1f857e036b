// Evaluates ONNX ops whose operands are all known, as ONNX defines them.
// Tested by test/import/Folding.cpp and test/conformance (inputs as constants).
#ifndef LLMC_LIB_ONNX_FOLD_FOLD_H
#define LLMC_LIB_ONNX_FOLD_FOLD_H

#include "lib/onnx/file/HostTensor.h"
#include "lib/onnx/file/Node.h"
#include "lib/support/Error.h"

namespace llmc::onnximport {

// Holds a node and the values of its operands.
struct FoldInput {
  const Node &node;
  llvm::ArrayRef<const HostTensor *> operands; // null: left out

  size_t size() const { return operands.size(); }
  const HostTensor *get(size_t i) const { return i < operands.size() ? operands[i] : nullptr; }
};
using FoldResult = support::Result<std::vector<HostTensor>>;
using FoldFunction = FoldResult (*)(const FoldInput &);

// Returns the function that evaluates an op, or null. A fold function checks its operands and
// fails with a message that lacks file and node (the caller adds them).
FoldFunction findFold(llvm::StringRef op); // Node::qualifiedOp
// Returns null also for rare forms of an op that its function does not support: batch dims,
// reductions of a scatter, casts to F8E8M0.
FoldFunction findFold(const Node &node);

// Looks an op up in the table of one family; returns null if it is not there.
FoldFunction findArithmeticFold(llvm::StringRef op);
FoldFunction findMovementFold(llvm::StringRef op);
FoldFunction findIndexFold(llvm::StringRef op);
FoldFunction findReduceFold(llvm::StringRef op);

// Fails if a constant of this shape would have more than maxHostElements elements.
support::Status checkHostSize(llvm::ArrayRef<int64_t> shape);

//===-- Meanings that evaluation and conversion share -------------------------===//

// Returns the shape that Reshape gives to `from`. Fails if the numbers of elements differ.
support::Result<Shape> reshapedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                     llvm::ArrayRef<int64_t> target);
// Returns the axes of the operand `values`, else of the attribute `axes`, else none, each in
// 0 ... rank - 1. Fails if one is out of range or appears twice.
support::Result<Shape> axesOf(const Node &node, const HostTensor *values, int64_t rank);
// Returns the shapes of Squeeze, which without axes drops every dim of 1, of Unsqueeze, whose
// axes are dims of the result, and of Flatten.
support::Result<Shape> squeezedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                     const HostTensor *axes);
support::Result<Shape> unsqueezedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                       const HostTensor *axes);
support::Result<Shape> flattenedShape(const Node &node, llvm::ArrayRef<int64_t> from);
// Returns the element type of a Cast's result, nullopt if it is not supported.
std::optional<Element> elementOfCast(const Node &node);
support::Result<Shape> permutationOf(const Node &node, int64_t rank);
// Holds the axis of a Split and the sizes of its parts.
struct SplitParts {
  int64_t axis = 0;
  Shape sizes;
};
support::Result<SplitParts> splitParts(const Node &node, llvm::ArrayRef<int64_t> from,
                                       const HostTensor *sizes);
// Holds the range of a Slice: per dim the first element, the step (may be negative) and the count.
struct SliceRange {
  Shape starts, steps, counts;
};
support::Result<SliceRange> sliceRange(const Node &node, llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<const HostTensor *> operands);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FOLD_FOLD_H
