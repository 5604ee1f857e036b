// Finds values that depend on arguments of the function: a stored tensor that is combined with
// one may be learned. Tested by test/import/Learned.cpp.
#ifndef LLMC_LIB_ONNX_BIND_ACTIVATIONS_H
#define LLMC_LIB_ONNX_BIND_ACTIVATIONS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace llmc::onnximport {

// Answers queries about values, and caches the answers: the ops of a queried value must not
// change while the object is in use.
class Activations {
public:
  // Returns whether the value is, or depends through float values alone on, a float argument.
  bool holds(mlir::Value value);
  // Returns whether an op other than a comparison combines the value, or a float that is
  // computed from it, with an operand for which holds() is true.
  bool meetsActivation(mlir::Value value);

private:
  llvm::DenseMap<mlir::Value, bool> known_;
};

// Returns whether a softmax reads the value, or a sum, a selection or a rearrangement of it: it
// is then an offset of attention scores (a mask or a position bias).
bool isScoreOffset(mlir::Value value);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_ACTIVATIONS_H
