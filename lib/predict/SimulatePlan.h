// Predicts a plan by simulating what it compiles to. Tests: test/numerics/calibrated.py, test/numerics/search.py.
#ifndef LLMC_LIB_PREDICT_SIMULATEPLAN_H
#define LLMC_LIB_PREDICT_SIMULATEPLAN_H

#include "lib/options/Options.h"
#include "lib/predict/Predict.h"

#include <vector>

namespace llmc::predict {

// Compiles the plan, without machine code, and takes the time of its simulation for that of the table. Fails after
// diagnostics.
mlir::LogicalResult simulatePlan(mlir::MLIRContext &context, CompileOptions options, Prediction &prediction);

// Compiles the plan and simulates it the same way, and leaves the step of the table: sets prediction.simulated. Fails after
// diagnostics.
mlir::LogicalResult simulateBeside(mlir::MLIRContext &context, CompileOptions options, Prediction &prediction);

// Selects the plans that are simulated beside their tables: those that take about a second, all, or none.
enum class Simulating { Auto, On, Off };

// Returns the numbers of those predictions, the fastest of which stands first, whose plans are simulated, and says of the
// others why they are not.
std::vector<size_t> chooseSimulated(llvm::ArrayRef<Prediction *> predictions, Simulating how);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_SIMULATEPLAN_H
