// The shrunk twin: a model with smaller widths that stands for one that is too
// large to run here. Both are compiled; the large plan decides, the twin's follows,
// the two are shown isomorphic, and the twin's is run.
#ifndef LLMC_LIB_VERIFY_SCALED_TWIN_H
#define LLMC_LIB_VERIFY_SCALED_TWIN_H

#include "lib/verify/Verify.h"

namespace llmc::verify {

// What a verification of the model itself would cost here, from its raised module.
struct Cost {
  double seconds = 0; // of the evaluation in double
  double bytes = 0;   // of weights, optimizer state and copies on all ranks
};
Cost estimateCost(mlir::ModuleOp raised, const CompileOptions &options);

// By options.twin; for auto, whether the cost is above ten minutes or above half of
// the free memory. A dump stands for itself. Fails with diagnostics.
mlir::FailureOr<bool> needsTwin(mlir::MLIRContext &context, const VerifyOptions &options);

// Layers, stages, tensor parallelism, schedule and micro-batches of `options`; dp
// at most 2.
CompileOptions twinOptions(const CompileOptions &options);

// Static checkers on the plan, then static:twin-isomorphic, then all checks on
// the twin. Fails with diagnostics.
mlir::FailureOr<Report> verifyTwin(mlir::MLIRContext &context, const VerifyOptions &options);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SCALED_TWIN_H
