// Dimensions that must have one size, because ops tie them together.
#ifndef LLMC_PASSES_PARTITION_PADDIMS_DIMCLASSES_H
#define LLMC_PASSES_PARTITION_PADDIMS_DIMCLASSES_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

struct DimClass {
  int64_t size = 0;
  int64_t multiple = 1;   // what all cuts of it divide by
  bool mayGrow = false;   // rows of a table are looked up along it, or an output is cropped
  bool isFixed = false;   // merged with others, not to be cut, or an input's
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> dims;
  llvm::SmallVector<std::pair<mlir::Operation *, int64_t>> states;
};

// All classes of more than one element, in order of first appearance.
std::vector<DimClass> collectDimClasses(mlir::ModuleOp module, parallel::MeshAttr mesh);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PADDIMS_DIMCLASSES_H
