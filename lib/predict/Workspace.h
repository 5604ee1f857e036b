// Measures what the arenas of a plan hold beside states and slots, by scheduling a plan of few layers. Tests:
// test/predict/PlanTableTest.cpp, test/numerics/simulated.py.
#ifndef LLMC_LIB_PREDICT_WORKSPACE_H
#define LLMC_LIB_PREDICT_WORKSPACE_H

#include "lib/cost/ChunkShape.h"
#include "lib/options/Options.h"
#include "lib/predict/RaisedModels.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <optional>

namespace llmc::predict {

// Holds a plan that has one stage for each shape of a chunk, of the layers that stand for all of such a chunk, partitioned
// as compile would; the order of micro-batches and what is recomputed may be chosen later.
class WorkspacePlan {
public:
  // Builds the plan: partitions the model of `options` for the layers and the mesh of `table` and `machine`, whose choices
  // give the layers of each chunk. `isShort`: the model is a config.json, of which layers can be left out. Nullopt after
  // diagnostics.
  static std::optional<WorkspacePlan> build(RaisedModels &models, CompileOptions options, const cost::Table &table,
                                            const cost::Machine &machine, bool isShort);

  // Returns the bytes of each shape when the plan is scheduled: of what a rank's arena holds that is no state of the model and
  // in no slot of a micro-batch. Nullopt after diagnostics.
  std::optional<std::map<cost::ChunkShape, cost::Workspace>> measure(Recompute recompute) const;

private:
  CompileOptions options_;
  std::vector<cost::ChunkShape> shapes_; // of each stage
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_WORKSPACE_H
