#ifndef LLMC_PASSES_PARTITION_LOCALIZE_COLLECTIVES_H
#define LLMC_PASSES_PARTITION_LOCALIZE_COLLECTIVES_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Builds the collectives that turn `value`, the part of a tensor that a rank holds under `from`,
// into its part under `to`, and returns that part; `value` itself if nothing changes. Every
// collective gets `origin` unless it is null. Test: test/passes/4-partition/localize.mlir.
mlir::Value reshardLocal(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                        parallel::ShardingAttr from, parallel::ShardingAttr to,
                        parallel::MeshAttr mesh, mlir::Attribute origin);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_LOCALIZE_COLLECTIVES_H
