// Builds phase 3. Tests: test/passes/3-shard/StepTest.cpp, ShardingTest.cpp.
#ifndef LLMC_PASSES_SHARD_PIPELINE_H
#define LLMC_PASSES_SHARD_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

struct ShardOptions {
  int zero = 0; // stage of ZeRO
  bool sequenceParallel = false; // cuts the sequence over tp between products
  bool ring = false;             // cuts the sequence over cp in attention, too, in place of its heads
  bool verifies = true;          // that annotations fit each other, which only a mistake of our own can break
};

// Builds phase 3, which annotates @micro and @update for the module's `parallel.mesh`.
void buildShardPipeline(mlir::OpPassManager &pm, const ShardOptions &options = {});

} // namespace llmc

#endif // LLMC_PASSES_SHARD_PIPELINE_H
