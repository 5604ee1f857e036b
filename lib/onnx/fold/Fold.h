// Evaluation of ONNX ops whose operands are all known, as ONNX defines them.
#ifndef LLMC_LIB_ONNX_FOLD_FOLD_H
#define LLMC_LIB_ONNX_FOLD_FOLD_H

#include "lib/onnx/file/HostTensor.h"
#include "lib/onnx/file/Node.h"
#include "lib/support/Error.h"

namespace llmc::onnximport {

struct FoldInput {
  const Node &node;
  llvm::ArrayRef<const HostTensor *> operands; // null where left out

  size_t size() const { return operands.size(); }
  const HostTensor *get(size_t i) const { return i < operands.size() ? operands[i] : nullptr; }
};
using FoldResult = support::Result<std::vector<HostTensor>>;
using FoldFunction = FoldResult (*)(const FoldInput &);

// Null if the op cannot be evaluated. A function checks its operands and fails
// with a message that lacks file and node (the caller knows them).
FoldFunction findFold(llvm::StringRef op); // Node::qualifiedOp
// Null also for the rare forms of an op that its function lacks.
FoldFunction findFold(const Node &node);

// The tables of the families.
FoldFunction findArithmeticFold(llvm::StringRef op);
FoldFunction findMovementFold(llvm::StringRef op);
FoldFunction findIndexFold(llvm::StringRef op);
FoldFunction findReduceFold(llvm::StringRef op);

// Why a constant of this shape cannot be held, if so.
support::Status checkHostSize(llvm::ArrayRef<int64_t> shape);

//===-- Meanings that evaluation and conversion share -------------------------===//

// The shape that Reshape gives to `from`; the error tells what does not fit.
support::Result<Shape> reshapedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                     llvm::ArrayRef<int64_t> target);
// Axes from the operand `values`, else from the attribute, normal for `rank`.
support::Result<Shape> axesOf(const Node &node, const HostTensor *values, int64_t rank);
// Squeeze without axes drops every 1. Unsqueeze counts axes in the result.
support::Result<Shape> squeezedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                     const HostTensor *axes);
support::Result<Shape> unsqueezedShape(const Node &node, llvm::ArrayRef<int64_t> from,
                                       const HostTensor *axes);
support::Result<Shape> flattenedShape(const Node &node, llvm::ArrayRef<int64_t> from);
// The element type that Cast makes, if it is one of ours.
std::optional<Element> elementOfCast(const Node &node);
support::Result<Shape> permutationOf(const Node &node, int64_t rank);
// Sizes of the parts of Split, and its axis.
struct SplitParts {
  int64_t axis = 0;
  Shape sizes;
};
support::Result<SplitParts> splitParts(const Node &node, llvm::ArrayRef<int64_t> from,
                                       const HostTensor *sizes);
// Slice: per dim the first element, the step (may be negative) and the count.
struct SliceRange {
  Shape starts, steps, counts;
};
support::Result<SliceRange> sliceRange(const Node &node, llvm::ArrayRef<int64_t> from,
                                       llvm::ArrayRef<const HostTensor *> operands);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FOLD_FOLD_H
