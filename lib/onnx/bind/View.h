// Represents strided views of stored tensors: slices, transposes and reshapes that move no data.
// Tested by test/import/Folding.cpp.
#ifndef LLMC_LIB_ONNX_BIND_VIEW_H
#define LLMC_LIB_ONNX_BIND_VIEW_H

#include "lib/onnx/file/Model.h"

namespace llmc::onnximport {

// Describes one step of how a view was made. It is replayed as an op if the views of a source do
// not tile it.
struct ViewStep {
  enum Kind { Reshape, Transpose, Slice } kind;
  Shape shape; // of the result
  // Holds the permutation of a Transpose, or the starts of a Slice (`shape` gives the counts).
  Shape numbers;
};

// Represents a view: its element i is element offset + sum i_k * strides_k of the stored tensor
// `tensor` (index into Model::stored(), row-major).
struct View {
  unsigned tensor = 0;
  int64_t offset = 0;
  Shape shape, strides;
  std::vector<ViewStep> steps;
  // Holds the name of this use if it differs from the tensor's: the output of an Identity, which
  // torch.onnx writes for each parameter that is equal to an earlier one.
  std::string name;

  static View whole(unsigned tensor, llvm::ArrayRef<int64_t> shape);
  View transposed(llvm::ArrayRef<int64_t> permutation) const;
  View sliced(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> counts) const;
  // Returns nullopt if no strides express the new shape.
  std::optional<View> reshaped(llvm::ArrayRef<int64_t> shape) const;

  // Returns the dims of size > 1 by decreasing stride: the order in which a state holds them.
  Shape canonicalDims() const;
};

// Reads the whole tensor and returns the elements of the view.
HostTensor readView(const Model &model, const View &view);

// Returns whether the views hold each of the source's `count` elements exactly once.
bool coversExactly(llvm::ArrayRef<const View *> views, int64_t count);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_VIEW_H
