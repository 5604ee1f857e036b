// Provides what the implementations of the ops share: index loops, sharding rules, gradients.
// Tests: test/dialects/graph/Formulas.cpp, Sharding.cpp, Gradients.cpp.
#ifndef LLMC_DIALECTS_GRAPH_DETAIL_H
#define LLMC_DIALECTS_GRAPH_DETAIL_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Scalars.h"

#include <limits>

namespace llmc::graph {

template <typename T> using Inputs = llvm::ArrayRef<const TensorOf<T> *>;
template <typename T> using Outputs = llvm::MutableArrayRef<TensorOf<T>>;
using Strides = std::vector<int64_t>;

// Calls `body(offsets)` for every index of `shape` in row-major order; offsets[k], in elements of
// the k-th tensor, begins at starts[k] (0 without `starts`) and moves by strides[k].
template <typename Body>
void forEach(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Strides> strides, Body body,
             llvm::ArrayRef<int64_t> starts = {}) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  llvm::SmallVector<int64_t> index(shape.size(), 0), offsets(strides.size(), 0);
  if (!starts.empty())
    offsets.assign(starts.begin(), starts.end());
  while (true) {
    body(static_cast<const int64_t *>(offsets.data()));
    int64_t dim = static_cast<int64_t>(shape.size()) - 1;
    for (; dim >= 0; --dim) {
      if (++index[dim] < shape[dim]) {
        for (size_t k = 0; k < strides.size(); ++k)
          offsets[k] += strides[k][dim];
        break;
      }
      index[dim] = 0;
      for (size_t k = 0; k < strides.size(); ++k)
        offsets[k] -= strides[k][dim] * (shape[dim] - 1);
    }
    if (dim < 0)
      return;
  }
}

// Returns strides that read a tensor of shape `own` as if it were broadcast to `shape`: 0 where it
// repeats.
Strides broadcastStrides(llvm::ArrayRef<int64_t> own, llvm::ArrayRef<int64_t> shape);

// Defines evaluate, evaluateDual and evaluateBounded of an op through its function template
// meaning(op, inputs, outputs) over the scalar.
#define LLMC_EVALUATE(OP)                                                                          \
  void OP::evaluate(Inputs<double> inputs, Outputs<double> outputs) {                              \
    meaning<double>(*this, inputs, outputs);                                                       \
  }                                                                                                \
  void OP::evaluateDual(Inputs<Dual> inputs, Outputs<Dual> outputs) {                              \
    meaning<Dual>(*this, inputs, outputs);                                                         \
  }                                                                                                \
  void OP::evaluateBounded(Inputs<Bounded> inputs, Outputs<Bounded> outputs) {                     \
    meaning<Bounded>(*this, inputs, outputs);                                                      \
  }

// Truncates toward zero; saturates what no 64-bit integer holds, and maps NaN to 0.
inline int64_t toInt64(double x) {
  if (x >= 0x1p63)
    return std::numeric_limits<int64_t>::max();
  if (x < -0x1p63)
    return std::numeric_limits<int64_t>::min();
  return x == x ? static_cast<int64_t>(x) : 0;
}

// Returns the value of the optional scalar operand `offset`, or 0 if the op has none.
template <typename T>
int64_t offsetOf(llvm::ArrayRef<const TensorOf<T> *> inputs, size_t index) {
  return index < inputs.size() ? toInt64(valueOf(inputs[index]->data[0])) : 0;
}

using LinearIn = llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2>;

// Returns the rule with one parallel factor per dimension of the broadcast result; operands and
// results that lack the dimension, or have it as 1, do not carry its factor.
ShardingRule elementwiseRule(mlir::Operation *op, LinearIn linearIn = {});

// Appends one new factor per dimension of `shape` to `rule` and returns the tensor's factors.
TensorFactors addFactors(ShardingRule &rule, llvm::ArrayRef<int64_t> shape,
                         FactorKind kind = FactorKind::Parallel);

// Sets the cotangent of every operand to null, for ops that pass nothing back.
inline mlir::LogicalResult noGradient(mlir::Operation *op,
                                      llvm::SmallVectorImpl<mlir::Value> &gradients) {
  gradients.assign(op->getNumOperands(), mlir::Value());
  return mlir::success();
}

// Sets the cotangent of every float operand i to make(b, g, i), summed to the operand's shape,
// where g is the cotangent of the first result; all are null if g is.
mlir::LogicalResult setOperandCotangents(mlir::Operation *op, mlir::OpBuilder &builder,
                             llvm::ArrayRef<mlir::Value> cotangents,
                             llvm::SmallVectorImpl<mlir::Value> &gradients,
                             llvm::function_ref<mlir::Value(Build &, mlir::Value, unsigned)> make);

inline std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// Checks the shape of the operand or result that the rule calls `name`.
inline mlir::LogicalResult verifyShape(mlir::Operation *op, llvm::StringRef rule, llvm::StringRef name,
                                       mlir::Value value, llvm::ArrayRef<int64_t> expected) {
  if (shapeOf(value) != expected)
    return op->emitOpError() << rule << ": " << name << " has shape " << shapeText(shapeOf(value)) << ", expected "
                             << shapeText(expected);
  return mlir::success();
}

// Checks that the first result has the element type of `operand`.
inline mlir::LogicalResult verifyElement(mlir::Operation *op, llvm::StringRef rule, mlir::Value operand) {
  mlir::Type got = elementOf(op->getResult(0));
  if (got != elementOf(operand))
    return op->emitOpError() << rule << ": result has element type " << got << ", expected " << elementOf(operand);
  return mlir::success();
}

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_DETAIL_H
