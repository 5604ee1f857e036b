// A known constant that is not held along dims in which it repeats.
#ifndef LLMC_LIB_ONNX_FOLD_CONSTANT_H
#define LLMC_LIB_ONNX_FOLD_CONSTANT_H

#include "lib/onnx/fold/Fold.h"

namespace llmc::onnximport {

struct Origin; // lib/onnx/convert/Conversion.h

// `held` has the rank of `shape`; each of its dims is that of `shape`, or 1. An
// attention mask of [batch, 1, rows, keys] is held as [1, 1, rows, keys]: its
// size does not grow with the batch.
struct Constant {
  HostTensor held;
  Shape shape;
  std::shared_ptr<const Origin> origin; // null unless stored floats are in it

  Constant() = default;
  explicit Constant(HostTensor tensor);
  Constant(HostTensor tensor, llvm::ArrayRef<int64_t> shape);

  bool isDense() const { return held.shape == shape; }
  // All elements. Fails above the importer's limit.
  support::Result<HostTensor> dense() const;
};

// Evaluates a node whose operands are all known (null where left out); `fold`
// is the op's own function. Ops that work element by element, and those that
// build and look up indices, keep repeated dims apart.
support::Result<std::vector<Constant>> foldConstants(const Node &node, FoldFunction fold,
                                                     llvm::ArrayRef<const Constant *> operands);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FOLD_CONSTANT_H
