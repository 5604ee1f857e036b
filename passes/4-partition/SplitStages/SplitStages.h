// Declares the steps of SplitStages: they rewrite the sums of @micro in place and write the stages'
// functions beside @micro and @update, which the pass erases at the end. Tests:
// test/passes/4-partition/split-stages.mlir, split-stages-invalid.mlir.
#ifndef LLMC_PASSES_PARTITION_SPLITSTAGES_SPLITSTAGES_H
#define LLMC_PASSES_PARTITION_SPLITSTAGES_SPLITSTAGES_H

#include "dialects/parallel/Annotations.h"
#include "passes/4-partition/Stages.h"

#include "llvm/Support/InterleavedRange.h"
#include <set>

namespace llmc {

// Represents a parameter with all states that belong to it, or a lone accumulator.
struct StateGroup {
  llvm::SmallVector<int64_t> layers; // per virtual stage, if it is stacked and split; else empty
  std::set<int64_t> holders; // stages of the mesh that hold it; the first owns it
  bool isScalar = false; // an accumulator of no parameter: the step's own sum

  int64_t owner() const { return *holders.begin(); }
  bool isSplit() const { return !layers.empty(); }
  // Returns the first layer of a virtual stage.
  int64_t firstLayer(int64_t stage) const {
    int64_t first = 0;
    for (int64_t k = 0; k < stage; ++k)
      first += layers[k];
    return first;
  }
  // Returns the virtual stage that has layers of the state on a stage of a mesh with `count`
  // stages: S5 allows one.
  int64_t virtualStageOn(int64_t stage, int64_t count) const {
    int64_t k = stage;
    while (layers[k] == 0 && k + count < static_cast<int64_t>(layers.size()))
      k += count;
    return k;
  }
};

// Holds what the splitting of @micro and of @update share.
struct StageSplit {
  mlir::ModuleOp module;
  parallel::MeshAttr mesh;
  int64_t stages;        // virtual ones
  int64_t stagesOfMesh;
  bool infer; // one run of @forward: there is no backward and no update
  mlir::SymbolTable symbols;
  std::map<std::string, StateGroup> stateGroups; // by the root's symbol

  explicit StageSplit(mlir::ModuleOp module)
      : module(module), mesh(parallel::getMesh(module)), stages(parallel::getNumVirtualStages(module)),
        stagesOfMesh(mesh.getSize(planfile::AxisRole::Stages)), infer(parallel::isInference(module)), symbols(module) {}
  // Returns the symbol of the parameter that `state` belongs to, or its own.
  std::string rootOf(llvm::StringRef state);
  StateGroup &stateGroupOf(llvm::StringRef state) { return stateGroups[rootOf(state)]; }
};

// Maps the index of an operand of @micro's return, a gradient that several stages contribute to, to
// pairs of a stage and its share: acc + the sum of that stage's terms.
using StageSums = std::map<unsigned, llvm::SmallVector<std::pair<int64_t, mlir::Value>>>;
// Rewrites the sums into accumulators as one sum per stage, with its stage and direction, and
// returns them; the return keeps the first. Leaves a result alone that is no acc + terms. Adds to `apart` the results
// of layers of which a stage adds what its own layers give: none of them goes on from one stage to the next.
StageSums splitAccumulators(mlir::func::FuncOp micro, int64_t stages, llvm::DenseSet<mlir::Value> &apart);

// Writes forward_K and backward_K for @micro, or forward_K for @forward; fills in
// split.stateGroups. Emits an error and fails on S1, S2 or S3.
mlir::LogicalResult splitMicro(mlir::func::FuncOp micro, StageSplit &split);
// Writes update_K for @update; needs the stateGroups of splitMicro(). Emits an error and fails on
// S4.
mlir::LogicalResult splitUpdate(mlir::func::FuncOp update, StageSplit &split);

// Creates the function NAME_STAGE of a procedure of a virtual stage, with an empty entry block and
// its marks, at the end of the module.
mlir::func::FuncOp makeProcedure(StageSplit &split, llvm::StringRef name, int64_t stage,
                                 llvm::ArrayRef<mlir::Type> args, mlir::Location loc);
// Binds an argument or result, of which these are the attributes, to a state, with the virtual stage's layers if the state
// is split.
void bindState(mlir::NamedAttrList &attributes, mlir::Attribute state, StageSplit &split, int64_t stage);
// Sets the attributes of all arguments or results of a function at once, since each call rebuilds the list of all.
void setArgumentAttributes(mlir::func::FuncOp func, llvm::ArrayRef<mlir::NamedAttrList> attributes);
void setResultAttributes(mlir::func::FuncOp func, llvm::ArrayRef<mlir::NamedAttrList> attributes);
void removeDeadOps(mlir::func::FuncOp func);
void removeUnusedArguments(mlir::func::FuncOp func);

} // namespace llmc

#endif // LLMC_PASSES_PARTITION_SPLITSTAGES_SPLITSTAGES_H
