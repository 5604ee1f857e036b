// A stored tensor seen through slices, transposes and reshapes: no data moves.
#ifndef LLMC_LIB_ONNX_BIND_VIEW_H
#define LLMC_LIB_ONNX_BIND_VIEW_H

#include "lib/onnx/file/Model.h"

namespace llmc::onnximport {

// How a view was made, for the rare source whose views do not tile it.
struct ViewStep {
  enum Kind { Reshape, Transpose, Slice } kind;
  Shape shape; // of the result
  // Transpose: the permutation. Slice: starts; `shape` gives the counts.
  Shape numbers;
};

// Element i of the view is element offset + sum i_k * strides_k of the stored
// tensor `tensor` (row-major).
struct View {
  unsigned tensor = 0;
  int64_t offset = 0;
  Shape shape, strides;
  std::vector<ViewStep> steps;
  // What the file calls this use of the tensor, where that is not the tensor's own name:
  // the output of an Identity, which torch.onnx writes for each parameter that it finds
  // equal to one before.
  std::string name;

  static View whole(unsigned tensor, llvm::ArrayRef<int64_t> shape);
  View transposed(llvm::ArrayRef<int64_t> permutation) const;
  View sliced(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> counts) const;
  // nullopt where the elements are not evenly spaced under the new shape.
  std::optional<View> reshaped(llvm::ArrayRef<int64_t> shape) const;

  // The dims of size > 1, the one with the largest stride first: the order in
  // which a state holds them.
  Shape canonicalDims() const;
};

HostTensor readView(const Model &model, const View &view);

// Whether the views hold each of the source's `count` elements exactly once.
bool tile(llvm::ArrayRef<const View *> views, int64_t count);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_VIEW_H
