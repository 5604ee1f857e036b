// Gives sums over the layers of a model as further results of @forward. Tests: test/passes/2-train/balance-experts.mlir,
// limit-routes.mlir, exchange-rows.mlir.
#ifndef LLMC_PASSES_TRAIN_FORWARDSUMS_H
#define LLMC_PASSES_TRAIN_FORWARDSUMS_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::train {

// Describes how a sum passes the layers: they carry it, since those of several stages add to it, or stack their terms, which
// serves a sum that is differentiated but never computed.
enum class SumOver { carried, stacked };

// Returns the sum of `terms`, which have one type and stand in program order, at the end of the function. Replaces the
// repeats in which terms stand.
mlir::Value addOverLayers(mlir::func::FuncOp forward, llvm::MutableArrayRef<mlir::Value> terms, SumOver how = SumOver::carried);

// Returns the sum of all elements of `value`, a value of the function's last lines.
mlir::Value sumAll(mlir::func::FuncOp forward, mlir::Value value);

// Adds `value` as the last result of the function, with this graph.output.
void addOutput(mlir::func::FuncOp forward, mlir::Value value, llvm::StringRef name);

} // namespace llmc::train

#endif // LLMC_PASSES_TRAIN_FORWARDSUMS_H
