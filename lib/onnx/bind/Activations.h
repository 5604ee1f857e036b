// Values that what a model learns reaches: where stored tensors meet them, these may be
// learned too.
#ifndef LLMC_LIB_ONNX_BIND_ACTIVATIONS_H
#define LLMC_LIB_ONNX_BIND_ACTIVATIONS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace llmc::onnximport {

// Remembers what it has found: values that exist must stay as they are.
class Activations {
public:
  // Whether a float argument of the function reaches the value through floats alone.
  bool holds(mlir::Value value);
  // Whether the value, or what floats are computed from it, is an operand of an op beside
  // an activation.
  bool isMetBy(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, bool> known_;
};

// Whether the first thing that is made of the value, or of its sum with others, is a
// softmax: it shifts scores.
bool shiftsScores(mlir::Value value);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_ACTIVATIONS_H
