// Builds graph ops under short names, so that gradients read like formulas. Tests:
// test/dialects/graph/Gradients.cpp (what is built), Sharding.cpp (cloneForTypes).
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

// Returns whether `op` is an attention, or the gradient of one, whose keys may go around a ring.
bool isRing(mlir::Operation *op);

// Returns the NumPy broadcast of two shapes, or nullopt if they do not broadcast.
std::optional<llvm::SmallVector<int64_t>> broadcastShapes(llvm::ArrayRef<int64_t> a,
                                                          llvm::ArrayRef<int64_t> b);

// Creates graph ops at the builder's insertion point, all with one location.
class Build {
public:
  Build(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  // Creates a scalar constant of type tensor<element>; for integers the value is truncated toward
  // zero.
  mlir::Value constant(double value, mlir::Type element);
  // Creates a splat constant of `like`'s type.
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
  // Returns `a` cast; `a` itself if it has that type, or the float that it was widened from.
  mlir::Value cast(mlir::Value a, mlir::Type element);

  mlir::Value reshape(mlir::Value a, llvm::ArrayRef<int64_t> shape);   // `a` itself if equal
  mlir::Value broadcast(mlir::Value a, llvm::ArrayRef<int64_t> shape); // `a` itself if equal
  mlir::Value transpose(mlir::Value a, llvm::ArrayRef<int64_t> permutation);
  // Slices elements [start, limit) of one dimension and keeps the others whole.
  mlir::Value slice(mlir::Value a, int64_t dim, int64_t start, int64_t limit);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> parts, int64_t dim);
  mlir::Value reduce(mlir::Value a, ReduceKind kind, llvm::ArrayRef<int64_t> dims);
  mlir::Value matmul(llvm::StringRef equation, mlir::Value a, mlir::Value b, mlir::Type element);

  // Sums `a` over the dimensions that `shape` lacks or has as 1: the adjoint of a broadcast.
  mlir::Value sumTo(mlir::Value a, llvm::ArrayRef<int64_t> shape);
  // Broadcasts `a` to `shape` along the `dims` that a reduction removed.
  mlir::Value unreduce(mlir::Value a, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> shape);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

// Clones `op` without regions at the insertion point, with other operands and result types, to run
// it on a part of its tensors. Adapts the attributes that repeat a size: the limits of slice
// dimensions that are taken whole, and splat constants.
mlir::Operation *cloneForTypes(mlir::OpBuilder &builder, mlir::Operation *op,
                               mlir::ValueRange operands, mlir::TypeRange resultTypes);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_BUILD_H
