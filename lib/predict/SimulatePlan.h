// Predicts a plan by simulating what it compiles to. Tests: test/numerics/calibrated.py.
#ifndef LLMC_LIB_PREDICT_SIMULATEPLAN_H
#define LLMC_LIB_PREDICT_SIMULATEPLAN_H

#include "lib/options/Options.h"
#include "lib/predict/Predict.h"

namespace llmc::predict {

// Compiles the plan, without machine code, and takes the time of its simulation for that of the table. Fails after
// diagnostics.
mlir::LogicalResult simulatePlan(mlir::MLIRContext &context, CompileOptions options, Prediction &prediction);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_SIMULATEPLAN_H
