// Verifies a scaled-down model in place of one that is too large to run here. Both are compiled;
// the large plan is checked statically and kernel by kernel, the two plans are shown to be
// isomorphic, and the small one is run. Tested by test/numerics/twin.py.
#ifndef LLMC_LIB_VERIFY_SCALED_SCALEDDOWNMODEL_H
#define LLMC_LIB_VERIFY_SCALED_SCALEDDOWNMODEL_H

#include "lib/verify/reference/VerifyOptions.h"
#include "lib/verify/subject/Report.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace llmc::verify {

// Estimates what a verification of the model itself would cost here.
struct Cost {
  double seconds = 0; // of evaluating it in double
  double bytes = 0;   // of weights, optimizer state and copies on all ranks
};
// Estimates the cost from a raised module.
Cost estimateCost(mlir::ModuleOp raised, const CompileOptions &options);

// Decides by options.twin; for Auto, returns whether the cost is above ten minutes or above half
// of the free memory. Neither IR nor a stand-in is scaled down by Auto. Fails after diagnostics.
mlir::FailureOr<bool> needsScaledDownModel(mlir::MLIRContext &context,
                                           const VerifyOptions &options);

// Returns options of the scaled-down model: layers, stages, tensor parallelism, schedule and
// micro-batches of `options`, but dp at most 2.
CompileOptions scaledDownOptions(const CompileOptions &options);

// Runs static checkers, state checks and kernel shapes on the plan, then static:twin-isomorphic,
// then all other checks, by
// `verifyModel`, on the scaled-down model. Fails after diagnostics.
using VerifyModel = llvm::function_ref<mlir::FailureOr<Report>(const VerifyOptions &)>;
mlir::FailureOr<Report> verifyScaledDownModel(mlir::MLIRContext &context,
                                              const VerifyOptions &options,
                                              VerifyModel verifyModel);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SCALED_SCALEDDOWNMODEL_H
