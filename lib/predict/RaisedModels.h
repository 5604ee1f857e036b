// Reads a model once for many meshes: holds it as phase raise leaves it, which is the same for all choices but the rows of a
// batch. Tests: test/predict/PlanTableTest.cpp, test/numerics/search.py.
#ifndef LLMC_LIB_PREDICT_RAISEDMODELS_H
#define LLMC_LIB_PREDICT_RAISEDMODELS_H

#include "lib/options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace llmc::predict {

// Keeps modules of one model, by what an import depends on. Needs: options of one model, that differ in choices of a plan alone.
class RaisedModels {
public:
  explicit RaisedModels(mlir::MLIRContext &context) : context_(context) {}

  mlir::MLIRContext &context() const { return context_; }

  // Returns a copy of the model of `options`, raised; null after diagnostics, of the model or of a mesh that does not fit it.
  mlir::OwningOpRef<mlir::ModuleOp> copy(const CompileOptions &options);

  // Returns the rows of a micro-batch that mark those of the model of `options` (MarkedRows.h); nullopt if nothing does, or after
  // diagnostics.
  std::optional<int64_t> markedRows(CompileOptions options);

private:
  using Key = std::tuple<int64_t, bool, AngleTables, std::vector<int64_t>>; // rows; oneLayerOfEach, angles, layersKept
  static Key keyOf(const CompileOptions &options);
  mlir::ModuleOp raised(const CompileOptions &options);

  mlir::MLIRContext &context_;
  std::map<Key, mlir::OwningOpRef<mlir::ModuleOp>> modules_;
  std::map<Key, std::optional<int64_t>> marked_;
};

// Drops the tensors of the model's files when `phase`, which has ended, is that of training, and no weights are read: hundreds of
// them for experts, which only training tells apart, and which every search among the module's ops would pass. Keeps those that
// ask for cuts.
void dropSources(Phase phase, mlir::Operation *module);

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_RAISEDMODELS_H
