// Describes what instructions are for, from locations and the origins of collectives. Tests:
// test/passes/5-schedule/build-procedures.mlir.
#ifndef LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_ORIGINS_H
#define LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_ORIGINS_H

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"

namespace llmc {

// Returns the origin of the instruction for `op`: the source nodes and kinds of the op, or of the
// ops of a group; of a collective also its tactic, rule and the other fields of `parallel.origin`.
plan::OriginAttr getOrigin(mlir::Operation *op);

// Returns whose routes `op` chooses or limits; null of any other op, and of a router that has no name.
plan::RoutesAttr getRoutes(mlir::Operation *op, parallel::MeshAttr mesh);

// Lists the values of a stage's function that cross a stage boundary, in the order of their
// numbers.
struct BoundaryValues {
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<parallel::ShardingAttr> layouts;

  // Returns the origin of the message that carries them all.
  plan::OriginAttr originOf(parallel::MeshAttr mesh, bool forward) const;
};
// Collects the values that have `parallel.boundary`; `attrs(i)` returns the attributes of the
// argument or result `values[i]`, or null.
BoundaryValues boundaryValuesOf(mlir::ValueRange values,
                                llvm::function_ref<mlir::DictionaryAttr(unsigned)> attrs);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_ORIGINS_H
