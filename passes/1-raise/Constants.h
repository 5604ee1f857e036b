// Reading and writing graph.constant, and what the patterns ask most often.
#ifndef LLMC_PASSES_RAISE_CONSTANTS_H
#define LLMC_PASSES_RAISE_CONSTANTS_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Graph.h"

namespace llmc::raise {

// The value of a graph.constant, nothing for any other value.
std::optional<graph::Tensor> constantOf(mlir::Value value);

// The number that all elements of a constant are equal to.
std::optional<double> scalarOf(mlir::Value value);

// `tensor` as an attribute of `type` (same shape; rounded to the element type).
mlir::DenseElementsAttr denseOf(const graph::Tensor &tensor, mlir::RankedTensorType type);

// Ops that compute each element alone, with NumPy broadcast of the operands.
bool isElementwise(mlir::Operation *op);

// A number that went through f32 on its way, as a person wrote it: the shortest
// decimal that gives the same f32 (9.99999974e-06 is 1e-05).
double asWritten(double value);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_CONSTANTS_H
