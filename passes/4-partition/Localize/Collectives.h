#ifndef LLMC_PASSES_PARTITION_LOCALIZE_COLLECTIVES_H
#define LLMC_PASSES_PARTITION_LOCALIZE_COLLECTIVES_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// The part of a tensor that a rank holds under `to`, from the part `value` it
// holds under `from`; every collective carries `origin`.
mlir::Value moveBetween(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                        parallel::ShardingAttr from, parallel::ShardingAttr to,
                        parallel::MeshAttr mesh, mlir::Attribute origin);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_LOCALIZE_COLLECTIVES_H
