// Describes in which element types an op reads and writes where a model computes in a low one
// (bf16, f16): test/passes/2-train/lower-precision.mlir. Every kernel computes in float32 and
// rounds what it writes, so a rule says where a number may be rounded.
#ifndef LLMC_DIALECTS_GRAPH_PRECISIONRULE_H
#define LLMC_DIALECTS_GRAPH_PRECISIONRULE_H

#include "llvm/ADT/SmallVector.h"

namespace llmc::graph {

enum class Precision {
  // Takes or gives the one type of all such tensors of the op: the low type, or f32 if an operand
  // comes in f32 and is no constant number (PyTorch's type promotion).
  Common,
  Low,   // the low type: operands of products, activations that are kept
  Full,  // f32: statistics, sums of many terms
  Given, // an operand as it comes; a result of the type that the op states itself
};

// Holds one entry for each operand and result. Missing entries are Common; entries of tensors that
// hold no floats are not read.
struct PrecisionRule {
  llvm::SmallVector<Precision, 4> operands, results;

  Precision ofOperand(unsigned i) const {
    return i < operands.size() ? operands[i] : Precision::Common;
  }
  Precision ofResult(unsigned i) const {
    return i < results.size() ? results[i] : Precision::Common;
  }
};

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_PRECISIONRULE_H
