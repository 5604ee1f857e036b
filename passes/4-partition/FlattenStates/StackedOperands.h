// Replaces stacked operands and results of a repeat by one of each, for FlattenStates. Test:
// test/passes/4-partition/flatten-states.mlir.
#ifndef LLMC_PASSES_PARTITION_FLATTENSTATES_STACKEDOPERANDS_H
#define LLMC_PASSES_PARTITION_FLATTENSTATES_STACKEDOPERANDS_H

#include "dialects/graph/Graph.h"
#include "llvm/ADT/MapVector.h"

namespace llmc::flat {

struct StackedEdit {
  // Maps stacked operands that go to the number of the tensor that each is; `added` comes in their
  // place, and `tensorOf` builds in the body what tensor `number` is of its slice.
  llvm::MapVector<mlir::Value, size_t> dropped;
  mlir::Value added;
  std::function<mlir::Value(mlir::OpBuilder &, mlir::BlockArgument slice, size_t number)> tensorOf;
  // Maps results that go to the number of the tensor that each is, and builds of what the body
  // yielded for them (null where a tensor has none) what it yields for one new stacked result. Null:
  // there is no new one.
  llvm::MapVector<mlir::Value, size_t> droppedResults;
  std::function<mlir::Value(mlir::OpBuilder &, mlir::BlockArgument slice,
                            llvm::ArrayRef<mlir::Value> yielded)>
      yield;
};

// Replaces `op`, whose dropped results have no users, by the edited repeat. Returns the new stacked
// result, or null.
mlir::Value editStacked(graph::RepeatOp op, const StackedEdit &edit, size_t tensors);

} // namespace llmc::flat

#endif // LLMC_PASSES_PARTITION_FLATTENSTATES_STACKEDOPERANDS_H
