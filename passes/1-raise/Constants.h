// Reading and writing graph.constant, and what the patterns ask most often.
#ifndef LLMC_PASSES_RAISE_CONSTANTS_H
#define LLMC_PASSES_RAISE_CONSTANTS_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Graph.h"

namespace llmc::raise {

// The numbers of a dense constant, read where they lie: a mask of a long
// sequence is looked at without a copy.
class Elements {
public:
  explicit Elements(mlir::DenseElementsAttr dense);

  int64_t size() const { return count; }
  double operator[](int64_t i) const { return (this->*read)(splat ? 0 : i); }

private:
  template <typename T> double readRaw(int64_t i) const {
    T value;
    memcpy(&value, raw + i * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  }
  double readBool(int64_t i) const;
  double readOther(int64_t i) const;

  mlir::DenseElementsAttr dense;
  const char *raw;
  int64_t count;
  bool splat;
  double (Elements::*read)(int64_t) const;
};

// The value of a graph.constant; null for any other value.
mlir::DenseElementsAttr denseValueOf(mlir::Value value);

// A copy of the value of a graph.constant, nothing for any other value.
std::optional<graph::Tensor> constantOf(mlir::Value value);

// The number that all elements of a constant are equal to.
std::optional<double> scalarOf(mlir::Value value);

// `tensor` as an attribute of `type` (same shape; rounded to the element type).
mlir::DenseElementsAttr denseOf(const graph::Tensor &tensor, mlir::RankedTensorType type);

// `dense` without the dims along which all elements are equal, aligned at the
// last dim: leading ones go, inner ones become 1.
mlir::DenseElementsAttr withoutRepeats(mlir::DenseElementsAttr dense);

// Ops that compute each element alone, with NumPy broadcast of the operands.
bool isElementwise(mlir::Operation *op);

// A number that went through f32 on its way, as a person wrote it: the shortest
// decimal that gives the same f32 (9.99999974e-06 is 1e-05).
double asWritten(double value);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_CONSTANTS_H
