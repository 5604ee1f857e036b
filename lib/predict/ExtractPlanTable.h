// Extracts the table of prices of our own plans from the kernels of a training step, while its layers are folded.
// Tests: test/predict/PlanTableTest.cpp, test/numerics/predicted_traffic.py (beside compiled plans).
#ifndef LLMC_LIB_PREDICT_EXTRACTPLANTABLE_H
#define LLMC_LIB_PREDICT_EXTRACTPLANTABLE_H

#include "lib/cost/Table.h"
#include "mlir/IR/BuiltinOps.h"

namespace llmc::predict {

// Returns the table of a module whose kernels have been found (findKernels in lib/pipeline), with all layers on its first
// stage and, if it has two, what follows the layers alone on the second. If the module has one layer of each kind
// (layer_kinds of graph.model), the table has all of them. `bodies`: as of extractTable.
cost::Table extractPlanTable(mlir::ModuleOp module, llvm::ArrayRef<int64_t> bodies);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_EXTRACTPLANTABLE_H
