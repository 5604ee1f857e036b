// Resolves sequences of tensors at import: an exporter that does not optimize splits a tensor into
// a sequence and takes its parts by constant positions. No op of `graph` has sequences.
// Tested by test/import/Exports.cpp.
#ifndef LLMC_LIB_ONNX_CONVERT_SEQUENCES_H
#define LLMC_LIB_ONNX_CONVERT_SEQUENCES_H

#include "lib/onnx/convert/Conversion.h"

namespace llmc::onnximport {

// Converts a node of tensors with these operands.
using ConvertTensors = llvm::function_ref<ConvertResult(const Node &, llvm::ArrayRef<Operand>)>;
using SequenceFunction = ConvertResult (*)(const Node &, llvm::ArrayRef<Operand>, ConvertTensors);

// Returns the converter of an op (Node::qualifiedOp) that makes or takes sequences, else null:
// SplitToSequence, SequenceConstruct, SequenceAt and Identity (of tensors too).
SequenceFunction findSequenceConverter(llvm::StringRef op);

// Returns the shape of an operand, which must be neither empty nor a sequence.
Shape shapeOf(const Operand &operand);

inline bool isSequence(const Operand &operand) {
  return std::holds_alternative<std::shared_ptr<const Sequence>>(operand);
}

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_SEQUENCES_H
