// Declares what the ops of routed rows share: rows have the dims of their routes, [tokens ..., choices], and
// then their elements; where all choices of a token read one row, they lack the dim of choices. Tests:
// test/dialects/graph/experts-invalid.mlir, ExpertFormulas.cpp.
#ifndef LLMC_DIALECTS_GRAPH_ROUTEDROWS_H
#define LLMC_DIALECTS_GRAPH_ROUTEDROWS_H

#include "dialects/graph/Detail.h"

namespace llmc::graph {

// Returns `shape` and then one more dim.
inline llvm::SmallVector<int64_t> with(llvm::ArrayRef<int64_t> shape, int64_t last) {
  llvm::SmallVector<int64_t> result(shape);
  result.push_back(last);
  return result;
}

// Returns `factors` and then those of one more dim.
inline TensorFactors joined(TensorFactors factors, unsigned last) {
  factors.push_back({last});
  return factors;
}

// Returns the factors of rows, which lack the dim of choices if they are shared.
inline TensorFactors rowsOf(const TensorFactors &routes, bool isShared, unsigned last) {
  return joined(TensorFactors(llvm::ArrayRef(routes).drop_back(isShared ? 1 : 0)), last);
}

// Checks rows that have the dims of `routes` and then one more, or that without the dim of choices.
mlir::LogicalResult verifyRows(mlir::Operation *op, llvm::StringRef rule, llvm::StringRef name, mlir::Value rows,
                               mlir::Value routes, bool mayShare);

// Returns the type of one row of `elements` for each route, of the element type of `operand`.
inline mlir::RankedTensorType rowsType(mlir::Value routes, mlir::Value operand) {
  return mlir::RankedTensorType::get(with(shapeOf(routes), shapeOf(operand).back()), elementOf(operand));
}

// Returns the cotangent of rows from that of one row for each route: of shared rows, the sum over choices.
inline mlir::Value cotangentOfRows(Build &b, mlir::Value cotangents, mlir::Value routes, bool isShared) {
  int64_t choices = shapeOf(routes).size() - 1;
  return isShared ? b.reduce(cotangents, ReduceKind::sum, {choices}) : cotangents;
}

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_ROUTEDROWS_H
