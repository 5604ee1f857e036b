// Converts nodes on rows of which the number is known only at run time: a mixture of experts takes the
// rows of each expert, from its start to its end (Range, Gather) or those where a mask is true (NonZero),
// multiplies them, and joins or adds up those of all experts. Values keep all rows, of which some count:
// shapes stay static.
// Tested by test/numerics/infer.py, mixtures.py and test/import/Refusals.cpp.
#ifndef LLMC_LIB_ONNX_CONVERT_RAGGEDROWS_H
#define LLMC_LIB_ONNX_CONVERT_RAGGEDROWS_H

#include "lib/onnx/convert/Sequences.h"

namespace llmc::onnximport {

// Holds an operand of which some rows count, along `dim`: those where `mask` [rows] is true, or [start, end)
// (start is null for 0). `rows` is empty for a range itself, which has the numbers of its rows. A
// product of the rows with a matrix is not built before it is needed: those of all experts are one op.
struct RaggedRows {
  mlir::Value mask, start, end;
  int64_t dim = 0;
  Operand rows, factor;
  // States that `rows` are the sizes of such an operand, of which element `dim` is not known.
  bool isShape = false;

  bool hasSameRows(const RaggedRows &other) const {
    return mask == other.mask && start == other.start && end == other.end;
  }
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
