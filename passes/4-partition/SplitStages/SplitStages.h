#ifndef LLMC_PASSES_PARTITION_SPLITSTAGES_SPLITSTAGES_H
#define LLMC_PASSES_PARTITION_SPLITSTAGES_SPLITSTAGES_H

#include "dialects/parallel/Annotations.h"
#include "passes/4-partition/Stages.h"

#include "llvm/Support/InterleavedRange.h"
#include <set>

namespace llmc {

// A parameter with all states that belong to it, or a lone accumulator.
struct Family {
  llvm::SmallVector<int64_t> layers; // per stage, if it is stacked and split; else empty
  std::set<int64_t> holders;
  bool isScalar = false; // an accumulator of no parameter: the step's own sum

  int64_t owner() const { return *holders.begin(); }
  bool isSplit() const { return !layers.empty(); }
  int64_t firstLayer(int64_t stage) const {
    int64_t first = 0;
    for (int64_t k = 0; k < stage; ++k)
      first += layers[k];
    return first;
  }
};

// What is known of the module while it is split.
struct StageSplit {
  mlir::ModuleOp module;
  parallel::MeshAttr mesh;
  int64_t stages;
  bool infer; // one run of @forward: there is no backward and no update
  mlir::SymbolTable symbols;
  std::map<std::string, Family> families; // by the root's symbol

  explicit StageSplit(mlir::ModuleOp module)
      : module(module), mesh(parallel::getMesh(module)), stages(mesh.getSize(planfile::AxisRole::Stages)),
        infer(parallel::isInference(module)), symbols(module) {}
  // The symbol of the parameter that `state` belongs to, or its own.
  std::string rootOf(llvm::StringRef state);
  Family &familyOf(llvm::StringRef state) { return families[rootOf(state)]; }
};

// The returned value of a gradient that several stages contribute to, per
// stage: acc + the sum of that stage's terms. By index of the return's operand.
using Shares = std::map<unsigned, llvm::SmallVector<std::pair<int64_t, mlir::Value>>>;
Shares splitAccumulators(mlir::func::FuncOp micro, int64_t stages);

// @micro -> forward_K and backward_K, or @forward -> forward_K; fills in `families`.
mlir::LogicalResult splitMicro(mlir::func::FuncOp micro, StageSplit &split);
// @update -> update_K.
mlir::LogicalResult splitUpdate(mlir::func::FuncOp update, StageSplit &split);

// An empty function of a procedure, at the end of the module, with its marks.
mlir::func::FuncOp makeProcedure(StageSplit &split, llvm::StringRef name, int64_t stage,
                                 llvm::ArrayRef<mlir::Type> args, mlir::Location loc);
// Binds an argument or result to a state, naming the layers if it is split.
void bindState(mlir::func::FuncOp func, unsigned index, bool isResult, mlir::Attribute state,
               StageSplit &split, int64_t stage);
void removeDeadOps(mlir::func::FuncOp func);
void removeUnusedArguments(mlir::func::FuncOp func);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SPLITSTAGES_SPLITSTAGES_H
