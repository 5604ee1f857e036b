// What instructions are there for, from locations and the origins of collectives.
#ifndef LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_ORIGINS_H
#define LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_ORIGINS_H

#include "dialects/parallel/Annotations.h"
#include "dialects/plan/Plan.h"

namespace llmc {

// The source's nodes that an op or the ops of a group stand for; of a collective
// also its tactic, rule and what else `parallel.origin` says.
plan::OriginAttr getOrigin(mlir::Operation *op);

// Values of a stage's function that cross a border, in the border's order.
struct Border {
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<parallel::ShardingAttr> layouts;

  // Of the message that carries them all.
  plan::OriginAttr originOf(parallel::MeshAttr mesh, bool forward) const;
};
// `attrs(i)` are the argument's or result's attributes of `values[i]`.
Border borderOf(mlir::ValueRange values, llvm::function_ref<mlir::DictionaryAttr(unsigned)> attrs);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_BUILDPROCEDURES_ORIGINS_H
