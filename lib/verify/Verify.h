// Declares the driver of `llmc verify`, which shows that a plan computes what its model does.
// test/numerics/verify.py runs it; the parts have tests in test/verify.
#ifndef LLMC_LIB_VERIFY_VERIFY_H
#define LLMC_LIB_VERIFY_VERIFY_H

#include "lib/verify/reference/VerifyOptions.h"
#include "lib/verify/subject/Report.h"
#include "mlir/IR/MLIRContext.h"

namespace llmc::verify {

// Runs every check that `options` select, on the plan or on its scaled-down model. Fails after
// diagnostics if the compiler refuses the model; failed checks are in the report.
mlir::FailureOr<Report> verifyModel(mlir::MLIRContext &context, const VerifyOptions &options);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_VERIFY_H
