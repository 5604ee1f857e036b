// Short names for building graph ops, so that gradients read like formulas.
#ifndef LLMC_DIALECTS_GRAPH_BUILD_H
#define LLMC_DIALECTS_GRAPH_BUILD_H

#include "dialects/graph/Graph.h"

namespace llmc::graph {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return typeOf(value).getShape(); }
inline mlir::Type elementOf(mlir::Value value) { return typeOf(value).getElementType(); }
inline bool isFloat(mlir::Value value) { return mlir::isa<mlir::FloatType>(elementOf(value)); }

// The NumPy broadcast of two shapes, or nothing if they do not fit.
std::optional<llvm::SmallVector<int64_t>> broadcastShapes(llvm::ArrayRef<int64_t> a,
                                                          llvm::ArrayRef<int64_t> b);

// All ops go to the builder's insertion point, with one location.
class Build {
public:
  Build(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  // A scalar tensor<element>; integers are rounded toward zero.
  mlir::Value constant(double value, mlir::Type element);
  // A splat of `like`'s type.
  mlir::Value constantLike(double value, mlir::Value like);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value neg(mlir::Value a);
  mlir::Value exp(mlir::Value a);
  mlir::Value scale(mlir::Value a, double factor); // a * factor
  mlir::Value oneMinus(mlir::Value a);
  mlir::Value compare(mlir::Value a, mlir::Value b, Predicate predicate);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value cast(mlir::Value a, mlir::Type element); // `a` itself if it has that type

  mlir::Value reshape(mlir::Value a, llvm::ArrayRef<int64_t> shape);   // `a` itself if equal
  mlir::Value broadcast(mlir::Value a, llvm::ArrayRef<int64_t> shape); // `a` itself if equal
  mlir::Value transpose(mlir::Value a, llvm::ArrayRef<int64_t> permutation);
  // Elements [start, limit) of one dimension, all of the others.
  mlir::Value slice(mlir::Value a, int64_t dim, int64_t start, int64_t limit);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> parts, int64_t dim);
  mlir::Value reduce(mlir::Value a, ReduceKind kind, llvm::ArrayRef<int64_t> dims);
  mlir::Value matmul(llvm::StringRef equation, mlir::Value a, mlir::Value b, mlir::Type element);

  // The adjoint of a broadcast: sums `a` over the dimensions that `shape` lacks or has as 1.
  mlir::Value sumTo(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  // Puts reduced `dims` back as repeats, so that the result has `shape`.
  mlir::Value unreduce(mlir::Value a, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> shape);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

// Copies `op` with other operands and result types, and fits the attributes
// that repeat a size: limits of slice dimensions taken whole, splat constants.
// This is how an op is run on a part of its tensors.
mlir::Operation *cloneForTypes(mlir::OpBuilder &builder, mlir::Operation *op,
                               mlir::ValueRange operands, mlir::TypeRange resultTypes);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_BUILD_H
