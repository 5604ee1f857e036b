#ifndef LLMC_PASSES_SHARD_PIPELINE_H
#define LLMC_PASSES_SHARD_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

// Phase 3: annotates @micro and @update for the module's `parallel.mesh`.
void buildShardPipeline(mlir::OpPassManager &pm);

} // namespace llmc

#endif // LLMC_PASSES_SHARD_PIPELINE_H
