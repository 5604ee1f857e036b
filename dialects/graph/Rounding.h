// Rounds the doubles of the reference interpreter to the element types that the IR states, so that
// a missing or a doubled cast changes numbers. Test: test/dialects/graph/Rounding.cpp.
#ifndef LLMC_DIALECTS_GRAPH_ROUNDING_H
#define LLMC_DIALECTS_GRAPH_ROUNDING_H

#include "dialects/graph/Tensor.h"
#include "mlir/IR/Types.h"

namespace llmc::graph {

// Tells what an evaluation does with the numbers of a value: None keeps doubles, so that types have
// no meaning; ToTypes rounds each to the element type of the value that holds it.
enum class Rounding { None, ToTypes };

// Returns the number of `element` (f32, bf16, f16) that is nearest to x, of two the even one; past
// the largest an infinity. Returns x itself for any other type.
double roundedTo(mlir::Type element, double x);

// Rounds the elements of a tensor that a value of this type holds.
void roundTo(mlir::Type tensorType, Tensor &tensor);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_ROUNDING_H
