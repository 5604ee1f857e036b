// Sequences of tensors: an exporter that does not optimise splits a tensor into one
// and takes its parts by constant positions. They exist while a file is read; no op of
// `graph` makes or takes one.
#ifndef LLMC_LIB_ONNX_CONVERT_SEQUENCES_H
#define LLMC_LIB_ONNX_CONVERT_SEQUENCES_H

#include "lib/onnx/convert/Conversion.h"

namespace llmc::onnximport {

// Converts a node of tensors with these operands.
using ConvertTensors = llvm::function_ref<ConvertResult(const Node &, llvm::ArrayRef<Operand>)>;
using SequenceFunction = ConvertResult (*)(const Node &, llvm::ArrayRef<Operand>, ConvertTensors);

// Null if the op (Node::qualifiedOp) makes or takes no sequence: SplitToSequence,
// SequenceConstruct, SequenceAt and Identity (of tensors too) do.
SequenceFunction findSequenceConverter(llvm::StringRef op);

// Of what is no sequence and not empty.
Shape shapeOf(const Operand &operand);

inline bool isSequence(const Operand &operand) {
  return std::holds_alternative<std::shared_ptr<const Sequence>>(operand);
}

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_CONVERT_SEQUENCES_H
