// Provides the tensors of constant folding: shape computations, masks, positions.
// Tested by test/import/Folding.cpp.
#ifndef LLMC_LIB_ONNX_FILE_HOSTTENSOR_H
#define LLMC_LIB_ONNX_FILE_HOSTTENSOR_H

#include "lib/onnx/file/Element.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmc::onnximport {

using Shape = llvm::SmallVector<int64_t, 4>;

// Limits the elements of a constant: a larger mask belongs into the model as ops.
constexpr int64_t maxHostElements = int64_t(1) << 26;

// Holds a constant, row-major. Integers and booleans are exact (U64 as the int64 of its bits),
// floats are doubles that set() rounds to the element type after each operation.
struct HostTensor {
  Element element = Element::F32;
  Shape shape;
  std::vector<int64_t> ints;
  std::vector<double> floats;

  HostTensor() = default;
  HostTensor(Element e, llvm::ArrayRef<int64_t> s); // zeros
  static HostTensor vector(llvm::ArrayRef<int64_t> values); // I64, rank 1

  bool isFloat() const { return onnximport::isFloat(element); }
  int64_t size() const { return floats.size() + ints.size(); } // one of them is empty
  double number(int64_t i) const { return floats.empty() ? double(ints[i]) : floats[i]; }
  // Sets element `i`, rounded or wrapped to the element type.
  void set(int64_t i, double value);
  void set(int64_t i, int64_t value);
};

// Returns the number of elements; nullopt if a dim is negative, or if the product of the dims
// other than 0 exceeds `limit`.
std::optional<int64_t> countElements(llvm::ArrayRef<int64_t> shape,
                                     int64_t limit = int64_t(1) << 62);
std::optional<Shape> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);
Shape rowMajor(llvm::ArrayRef<int64_t> shape);
// Returns the strides that read a tensor of shape `from` broadcast to `to`: 0 along repeated
// dims.
Shape broadcastStrides(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);
std::string toText(llvm::ArrayRef<int64_t> shape); // "[4, 16]"

// Calls visit(linear index, offset_0, offset_1, ...) for all elements of `shape`
// in row-major order; offset_k steps by strides[k].
template <class Visit>
void forEachElement(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Shape> strides, Visit visit) {
  std::optional<int64_t> total = countElements(shape);
  if (!total || *total == 0)
    return;
  Shape index(shape.size(), 0);
  llvm::SmallVector<int64_t, 4> at(strides.size(), 0);
  for (int64_t n = 0; n < *total; ++n) {
    visit(n, llvm::ArrayRef<int64_t>(at));
    for (size_t d = shape.size(); d-- > 0;) {
      for (size_t k = 0; k < strides.size(); ++k)
        at[k] += strides[k][d];
      if (++index[d] < shape[d])
        break;
      for (size_t k = 0; k < strides.size(); ++k)
        at[k] -= strides[k][d] * shape[d];
      index[d] = 0;
    }
  }
}

// Returns the elements offset + strides * index of `in` as a tensor of `shape`.
HostTensor takeStrided(const HostTensor &in, llvm::ArrayRef<int64_t> shape,
                       llvm::ArrayRef<int64_t> strides, int64_t offset = 0);

// Reduces dims along which all elements are equal, by bits, to size 1; keeps the rank.
HostTensor collapseEqualDims(HostTensor in);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FILE_HOSTTENSOR_H
