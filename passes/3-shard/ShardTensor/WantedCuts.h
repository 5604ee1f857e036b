// Reads how the model's file wants parameters cut (graph.annotation on their sources). Test:
// test/passes/3-shard/shard-tensor-annotated.mlir.
#ifndef LLMC_PASSES_SHARD_SHARDTENSOR_WANTEDCUTS_H
#define LLMC_PASSES_SHARD_SHARDTENSOR_WANTEDCUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::parallel {

struct WantedCut {
  mlir::BlockArgument argument; // a parameter
  int64_t dim, parts;           // in parts == 1 pieces: it stays whole
  std::string weight, node;     // names in the file

  // Begins an error at `op` that names node, weight and cut, for the caller to complete.
  mlir::InFlightDiagnostic refuse(mlir::Operation *op) const;
};

// Returns the cuts that the file asks for the parameters of `func`; `parts` is the size of the
// axis. A dimension of the file that a parameter holds as several (heads and elements) is cut along
// the major one. Fails with an error where two layers of a stack are annotated differently, or
// where a number of parts is neither 1 nor the size of the axis.
mlir::FailureOr<llvm::SmallVector<WantedCut>> readWantedCuts(mlir::func::FuncOp func,
                                                             int64_t parts);

} // namespace llmc::parallel

#endif // LLMC_PASSES_SHARD_SHARDTENSOR_WANTEDCUTS_H
