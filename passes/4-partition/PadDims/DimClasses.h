// Groups dimensions into equivalence classes: those that ops tie together must have one size. Test:
// test/passes/4-partition/pad-dims.mlir.
#ifndef LLMC_PASSES_PARTITION_PADDIMS_DIMCLASSES_H
#define LLMC_PASSES_PARTITION_PADDIMS_DIMCLASSES_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Represents the dimensions of values and states that have one size.
struct DimClass {
  int64_t size = 0;
  int64_t multiple = 1;   // lcm of the group sizes that cut it
  bool mayGrow = false;   // it indexes rows of a table, or an output that is cropped has it
  bool isFixed = false;   // of a merged dimension, a Replicated factor or an input
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> dims;
  llvm::SmallVector<std::pair<mlir::Operation *, int64_t>> states;
};

// Returns all classes, singletons too, in order of first appearance.
llvm::SmallVector<DimClass> collectDimClasses(mlir::ModuleOp module, parallel::MeshAttr mesh);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PADDIMS_DIMCLASSES_H
