// Builds phase 4. Tests: test/passes/4-partition/StepTest.cpp, RealModelTest.cpp.
#ifndef LLMC_PASSES_PARTITION_PIPELINE_H
#define LLMC_PASSES_PARTITION_PIPELINE_H

#include "mlir/Pass/PassManager.h"

namespace llmc {

// Builds phase 4: annotated @micro and @update on global tensors become forward_K, backward_K and
// update_K of every stage K, on local tensors.
void buildPartitionPipeline(mlir::OpPassManager &pm);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_PIPELINE_H
