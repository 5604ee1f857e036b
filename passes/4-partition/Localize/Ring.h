#ifndef LLMC_PASSES_PARTITION_LOCALIZE_RING_H
#define LLMC_PASSES_PARTITION_LOCALIZE_RING_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Builds, for an attention or the gradient of one whose tokens are cut over the single `axis`, what a
// rank does: its rows meet its own keys and then, hop by hop, those of the ranks before it on the ring
// (Liu et al., 2023, "Ring Attention with Blockwise Transformers"). A hop at which no row of any rank sees
// a key, for all are outside of the window, is passed over. `operands` are the rank's parts; returns its
// parts of the results. Every shift gets `origin`. Tests: test/passes/4-partition/localize-ring.mlir,
// localize-ring-window.mlir.
llvm::SmallVector<mlir::Value> writeRing(mlir::OpBuilder &builder, mlir::Operation *op,
                                         mlir::ValueRange operands, mlir::StringAttr axis,
                                         parallel::MeshAttr mesh, mlir::Attribute origin);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_LOCALIZE_RING_H
