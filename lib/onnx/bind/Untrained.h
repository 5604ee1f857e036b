// Finds stored floats that @forward holds as constants though the model may have learned them.
// Tested by test/import/Learned.cpp.
#ifndef LLMC_LIB_ONNX_BIND_UNTRAINED_H
#define LLMC_LIB_ONNX_BIND_UNTRAINED_H

#include "lib/onnx/bind/Activations.h"
#include "lib/onnx/file/TorchNames.h"
#include "mlir/IR/Block.h"

#include <set>

namespace llmc::onnximport {

// Marks a constant op with the stored tensors that it is or was folded from (an attribute).
void markFolded(mlir::Value constant, const std::set<unsigned> &tensors);
// Removes the marks, and returns the tensors of marked constants that are combined with
// activations and are no computed tables; those that have names in the program even if the
// constant is such a table.
std::set<unsigned> collectUntrained(mlir::Block &body, Activations &activations,
                                 const TorchNames &names);
// Returns the note to the user about such tensors, and about `waves`, which hold values of a
// formula; "" if there are none.
std::string describeUntrained(const Model &model, const std::set<unsigned> &tensors,
                              const std::set<unsigned> &waves);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_BIND_UNTRAINED_H
