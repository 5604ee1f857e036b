// Represents known constants compactly: dims along which a constant repeats are held as 1.
// Tested by test/import/Folding.cpp.
#ifndef LLMC_LIB_ONNX_FOLD_CONSTANT_H
#define LLMC_LIB_ONNX_FOLD_CONSTANT_H

#include "lib/onnx/fold/Fold.h"

namespace llmc::onnximport {

struct FoldOrigin; // lib/onnx/convert/Conversion.h

// Holds a constant of `shape` as a tensor that broadcasts to it: `held` has the same rank, and
// each of its dims is that of `shape`, or 1. An attention mask of [batch, 1, rows, keys] is held
// as [1, 1, rows, keys]: its size does not grow with the batch.
struct Constant {
  HostTensor held;
  Shape shape;
  std::shared_ptr<const FoldOrigin> origin; // null unless stored floats are in it

  Constant() = default;
  explicit Constant(HostTensor tensor);
  Constant(HostTensor tensor, llvm::ArrayRef<int64_t> shape);

  bool isDense() const { return held.shape == shape; }
  // Returns all elements. Fails above maxHostElements.
  support::Result<HostTensor> dense() const;
};

// Evaluates a node whose operands are all known (null: left out); `fold` is the op's function.
// Elementwise ops, Expand, Concat, Unsqueeze, GatherND, and Gather along dim 0 work on `held`;
// others expand their operands, and fail if one exceeds maxHostElements.
support::Result<std::vector<Constant>> foldConstants(const Node &node, FoldFunction fold,
                                                     llvm::ArrayRef<const Constant *> operands);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FOLD_CONSTANT_H
