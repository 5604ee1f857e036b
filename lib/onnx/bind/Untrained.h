// Stored floats that a function holds as constants though a model may have learned them.
#ifndef LLMC_LIB_ONNX_BIND_UNTRAINED_H
#define LLMC_LIB_ONNX_BIND_UNTRAINED_H

#include "lib/onnx/bind/Activations.h"
#include "lib/onnx/file/TorchNames.h"
#include "mlir/IR/Block.h"

#include <set>

namespace llmc::onnximport {

// Remembers that a constant is, or was folded from, stored tensors.
void markFolded(mlir::Value constant, const std::set<unsigned> &tensors);
// Forgets what is remembered, and returns the tensors of constants that meet activations
// and are no tables; those that have names in the program whatever was made of them.
std::set<unsigned> takeUntrained(mlir::Block &body, Activations &activations,
                                 const TorchNames &names);
// What a reader should know of such tensors, and of those that hold values of a formula, as
// frequencies; nothing if there are none.
std::string describeUntrained(const Model &model, const std::set<unsigned> &tensors,
                              const std::set<unsigned> &waves);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_UNTRAINED_H
