// Finds which parameters of a stage share a flat bucket, for FlattenStates. Test:
// test/passes/4-partition/flatten-states.mlir.
#ifndef LLMC_PASSES_PARTITION_FLATTENSTATES_BUCKETS_H
#define LLMC_PASSES_PARTITION_FLATTENSTATES_BUCKETS_H

#include "dialects/parallel/Annotations.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace llmc::flat {

// Holds the functions of a stage.
struct StageFunctions {
  int64_t stage = 0;
  llvm::SmallVector<mlir::func::FuncOp> forwards, backwards; // of its chunks
  mlir::func::FuncOp update;
};

// Represents a parameter in a bucket; `shape` is that of a rank's part, of one layer if stacked.
struct BucketTensor {
  graph::StateOp parameter;
  llvm::SmallVector<graph::StateOp, 4> others; // that are of the parameter: master, accumulator, moments
  int64_t begin = 0; // in the flat tensor, in elements
  llvm::SmallVector<int64_t> shape;
  int64_t size() const { return llvm::product_of(shape); }
  llvm::StringRef name() const { return graph::StateOp(parameter).getSymName(); }
};

// Represents parameters whose states lie side by side in flat tensors.
struct Bucket {
  llvm::SmallVector<BucketTensor> tensors;
  mlir::DenseI64ArrayAttr layers; // first and count, if it is stacked
  int64_t length = 0;             // elements of one layer, with padding
  mlir::ArrayAttr axes;           // over which it is cut
  int64_t members = 1;            // ranks along the axes
  int zero = 1;                   // stage of ZeRO
  mlir::LocationAttr location;    // which names the parameters, layer by layer if they are stacked

  bool isStacked() const { return bool(layers); }
  int64_t padding() const {
    return length - tensors.back().begin - tensors.back().size();
  }
  // Returns the type of a rank's part of a flat tensor, or of all of it: of all layers, if stacked.
  mlir::RankedTensorType typeOf(mlir::Type element, bool isWhole) const;
  // Returns the binding of a flat tensor of the states of a role.
  parallel::FlatAttr bindingOf(graph::Role role, bool isWhole) const;
  // Returns the state of that role that belongs to a tensor; null if there is none.
  static graph::StateOp stateOf(const BucketTensor &tensor, graph::Role role);
};

// Returns the argument, or the operand of the return, that a function binds to a state; null if
// there is none.
mlir::BlockArgument argumentOf(mlir::func::FuncOp func, graph::StateOp state);
mlir::OpOperand *resultOf(mlir::func::FuncOp func, graph::StateOp state);

// Returns the arguments of @update that belong to a tensor, in the order master or parameter,
// accumulator, first and second moment; null where there is none.
llvm::SmallVector<mlir::BlockArgument, 4> updateArguments(mlir::func::FuncOp update,
                                                          const BucketTensor &tensor);

// Returns the buckets of a stage, in the order of their first parameters. Fails with a diagnostic
// on F1.
mlir::FailureOr<std::vector<Bucket>> collectBuckets(mlir::ModuleOp module,
                                                    StageFunctions functions);

// Returns whether an op of @update computes each element of a tensor alone.
bool isElementwise(mlir::Operation *op);
// Returns whether an op of @update sums the squares of a tensor.
bool isNorm(mlir::Operation *op);

} // namespace llmc::flat

#endif // LLMC_PASSES_PARTITION_FLATTENSTATES_BUCKETS_H
