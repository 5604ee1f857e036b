#ifndef LLMC_PASSES_PARTITION_LOCALIZE_EXPERTS_H
#define LLMC_PASSES_PARTITION_LOCALIZE_EXPERTS_H

#include "dialects/parallel/Annotations.h"
#include "llvm/ADT/DenseMap.h"

namespace llmc {

// Builds what a rank does for graph.exchange_routes, graph.dispatch and graph.collect: rows are sorted by
// their experts and go to the ranks that have these, each as often as it has choices; they come to lie there
// one source behind the other, and go back the same way. Where a rank has all experts, they stay there, sorted. Test: test/passes/4-partition/localize-experts.mlir.
class RowExchange {
public:
  explicit RowExchange(parallel::MeshAttr mesh) : mesh(mesh) {}

  static bool isExchange(mlir::Operation *op);
  // Checks that every axis of ep cuts the tokens of `op`, so that no row is sent twice; else emits an error
  // that names what would cut them.
  mlir::LogicalResult check(mlir::Operation *op) const;
  // Builds the rank's version of `op` on its parts of the operands, with results of these types.
  llvm::SmallVector<mlir::Value> write(mlir::OpBuilder &builder, mlir::Operation *op,
                                       mlir::ValueRange operands, mlir::TypeRange types);

private:
  // Holds the order of the rows of some routes.
  struct Order {
    mlir::Value places, sorted, counts;
  };
  Order orderOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value routes, int64_t experts);
  mlir::Value countsOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value sources);
  mlir::Value exchanged(mlir::OpBuilder &builder, mlir::Operation *op, mlir::Value rows, mlir::Value sent,
                        mlir::Value received, mlir::Type type);
  mlir::ArrayAttr axes(mlir::Operation *op) const;
  mlir::RankedTensorType countType(mlir::OpBuilder &builder) const;

  parallel::MeshAttr mesh;
  llvm::DenseMap<mlir::Value, Order> orders; // of routes, in the block that is written
  llvm::DenseMap<mlir::Value, mlir::Value> counts; // of sources
};

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_LOCALIZE_EXPERTS_H
