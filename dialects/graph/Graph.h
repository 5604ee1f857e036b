// Declares the `graph` dialect: ops, attributes, interface (README.md; test/dialects/graph/).
#ifndef LLMC_DIALECTS_GRAPH_GRAPH_H
#define LLMC_DIALECTS_GRAPH_GRAPH_H

#include "dialects/graph/PrecisionRule.h"
#include "dialects/graph/ShardingRule.h"
#include "dialects/graph/Tensor.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace llmc::graph {

// Lists the families of kernels that compute ops (passes/6-emit).
enum class EmitClass {
  Elementwise,  // one expression per output element
  RowReduction, // reduces the innermost dims of each row (norms, softmax, sums)
  Matmul,       // library call
  Movement,     // index arithmetic only (transpose, slice, gather, ...)
  Special,      // an own kernel (attention, scatter)
  Alias,        // no work: reshape, read
};

// Counts one FLOP per result element of an elementwise op and none for movement; for others one per
// element of the largest operand. It is the default of getFlops.
double elementwiseFlops(mlir::Operation *op);

// Marks ops that compute each element alone, with operands that broadcast as in NumPy.
template <typename Op>
class Broadcasting : public mlir::OpTrait::TraitBase<Op, Broadcasting> {};

} // namespace llmc::graph

#include "dialects/graph/GraphEnums.h.inc"

#include "dialects/graph/GraphDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/graph/GraphAttrs.h.inc"

#include "dialects/graph/GraphInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.h.inc"

#endif // LLMC_DIALECTS_GRAPH_GRAPH_H
