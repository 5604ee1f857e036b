// Holds a tensor of the reference interpreter: any element type, as doubles or other scalars
// (integers up to 2^53 are exact, i1 is 0 or 1), row-major. Tests:
// test/dialects/graph/Formulas.cpp.
#ifndef LLMC_DIALECTS_GRAPH_TENSOR_H
#define LLMC_DIALECTS_GRAPH_TENSOR_H

#include "dialects/graph/Bounded.h"
#include "dialects/graph/Dual.h"

#include <cstdint>
#include <vector>

namespace llmc::graph {

template <typename T> struct TensorOf {
  std::vector<int64_t> shape;
  std::vector<T> data;

  TensorOf() = default;
  explicit TensorOf(std::vector<int64_t> s) : shape(std::move(s)), data(count(shape), 0.0) {}
  static int64_t count(const std::vector<int64_t> &shape) {
    int64_t n = 1;
    for (int64_t d : shape)
      n *= d;
    return n;
  }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  // Returns row-major strides in elements.
  std::vector<int64_t> strides() const {
    std::vector<int64_t> s(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;)
      s[i - 1] = s[i] * shape[i];
    return s;
  }
};

using Tensor = TensorOf<double>;
using DualTensor = TensorOf<Dual>;
using BoundedTensor = TensorOf<Bounded>;

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_TENSOR_H
