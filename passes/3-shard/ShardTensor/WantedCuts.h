// How the model's file wants parameters cut (graph.annotation on their sources).
#ifndef LLMC_PASSES_SHARD_SHARDTENSOR_WANTEDCUTS_H
#define LLMC_PASSES_SHARD_SHARDTENSOR_WANTEDCUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::parallel {

struct WantedCut {
  mlir::BlockArgument argument; // a parameter
  int64_t dim, parts;           // in parts == 1 pieces: it stays whole
  std::string weight, node;     // names in the file

  mlir::InFlightDiagnostic refuse(mlir::Operation *op) const;
};

// What is said about the parameters of `func`; `parts` is the size of the axis. A
// dimension of the file that a parameter holds as several (heads and elements) is cut along
// the major one. Fails where two layers of a stack are wanted differently, or where a
// number of parts is not that of the axis.
mlir::FailureOr<llvm::SmallVector<WantedCut>> readWantedCuts(mlir::func::FuncOp func,
                                                             int64_t parts);

} // namespace llmc::parallel

#endif // LLMC_PASSES_SHARD_SHARDTENSOR_WANTEDCUTS_H
