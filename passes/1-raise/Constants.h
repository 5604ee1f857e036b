// Reads and writes the values of graph.constant (test/passes/1-raise/fold-constants.mlir).
#ifndef LLMC_PASSES_RAISE_CONSTANTS_H
#define LLMC_PASSES_RAISE_CONSTANTS_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Graph.h"

namespace llmc::raise {

// Reads the elements of a dense constant as doubles, in place: a mask of a long sequence is read
// without a copy.
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

// Returns the value of a graph.constant; null for any other value.
mlir::DenseElementsAttr denseValueOf(mlir::Value value);

// Returns a copy of the value of a graph.constant; nullopt for any other value.
std::optional<graph::Tensor> constantOf(mlir::Value value);

// Returns the number that all elements of a constant equal; nullopt if they differ or `value` is no
// constant.
std::optional<double> scalarOf(mlir::Value value);

// Returns `tensor` as an attribute of `type` (same shape), rounded to the element type.
mlir::DenseElementsAttr denseOf(const graph::Tensor &tensor, mlir::RankedTensorType type);

// Returns `dense` without the dims along which all elements are equal, aligned at the last dim:
// leading ones are dropped, inner ones become 1.
mlir::DenseElementsAttr dropBroadcastDims(mlir::DenseElementsAttr dense);

// Returns whether `op` computes each element alone, with NumPy broadcast of its operands; false if
// it is null.
bool isElementwise(mlir::Operation *op);

// Returns a number that passed through f32 as a person wrote it: the shortest decimal that gives
// the same f32 (9.99999974e-06 is 1e-05). Returns `value` itself if it is no f32.
double roundTripDecimal(double value);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_CONSTANTS_H
