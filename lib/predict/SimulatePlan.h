// Predicts a plan by simulating what it compiles to. Tested by test/numerics/calibrated.py.
#ifndef LLMC_TOOLS_LLMC_SIMULATEPLAN_H
#define LLMC_TOOLS_LLMC_SIMULATEPLAN_H

#include "lib/options/Options.h"
#include "lib/predict/Predict.h"

namespace llmc {

// Compiles the plan, without machine code, and takes the time of its simulation for that of the table. Fails after
// diagnostics.
mlir::LogicalResult simulatePlan(mlir::MLIRContext &context, CompileOptions options, predict::Prediction &prediction);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_SIMULATEPLAN_H
