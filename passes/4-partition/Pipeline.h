// Builds phase 4. Tests: test/passes/4-partition/StepTest.cpp, RealModelTest.cpp.
#ifndef LLMC_PASSES_PARTITION_PIPELINE_H
#define LLMC_PASSES_PARTITION_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include <string>

namespace llmc {

// Builds phase 4: annotated @micro and @update on global tensors become forward_K, backward_K and
// update_K of every stage K, on local tensors. `reduction` is the element type in which data-parallel
// ranks add gradients: f32, bf16, f16, or "" for that of their accumulators. A program of which nothing is `run` is neither
// described for people nor verified, as only a mistake of our own would break it.
void buildPartitionPipeline(mlir::OpPassManager &pm, const std::string &reduction = "", bool run = true);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PIPELINE_H
