// Converts nodes on rows of which the number is known only at run time: a mixture of experts takes the
// rows from start to end of each expert (Range, Gather), multiplies them, and joins the experts again.
// Values keep all rows, of which those of the range count: shapes stay static.
// Tested by test/numerics/infer.py and test/import/Refusals.cpp.
#ifndef LLMC_LIB_ONNX_CONVERT_RAGGEDROWS_H
#define LLMC_LIB_ONNX_CONVERT_RAGGEDROWS_H

#include "lib/onnx/convert/Sequences.h"

namespace llmc::onnximport {

// Holds the rows [start, end) of an operand (dim 0): start is null for 0. The operand is empty for
// the range itself, which has the numbers of its rows. A product of the rows with a matrix is not built
// before it is needed: those of all experts are one op.
struct RaggedRows {
  mlir::Value start, end;
  Operand rows, factor;
};

inline bool isRagged(const Operand &operand) {
  return std::holds_alternative<std::shared_ptr<const RaggedRows>>(operand);
}

// Returns whether the node makes or takes such rows.
bool isOnRaggedRows(const Node &node, llvm::ArrayRef<Operand> operands);

// Converts such a node; `call` has the operands that are tensors, `convert` converts nodes of tensors.
ConvertResult convertRaggedRows(NodeAdaptor &call, llvm::ArrayRef<Operand> operands,
                                ConvertTensors convert);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_RAGGEDROWS_H
