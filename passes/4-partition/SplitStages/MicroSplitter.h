// Splits @micro, or @forward of an inference. SplitMicro.cpp has the analysis, WriteStages.cpp the
// writing. Tests: test/passes/4-partition/split-stages.mlir, split-stages-inference.mlir.
//
// A *unit* is an op of one stage, or the part of a repeat that one stage runs. An *item* is a
// value, or the part of a stacked value that one stage holds. First every unit requests its items,
// which decides arguments, boundary values and residuals; then the functions are written.
#ifndef LLMC_PASSES_PARTITION_SPLITSTAGES_MICROSPLITTER_H
#define LLMC_PASSES_PARTITION_SPLITSTAGES_MICROSPLITTER_H

#include "passes/4-partition/SplitStages/SplitStages.h"

namespace llmc::stages {

using Item = std::pair<mlir::Value, int64_t>; // part -1: whole

struct Unit {
  mlir::Operation *op;
  int64_t part; // of a split repeat, else -1
  int64_t stage;
  bool backward;
};

// Describes the forward or backward function of one stage: its signature and its units.
struct StageFunction {
  int64_t stage;
  bool backward;
  llvm::SmallVector<Item> args, bordersIn, residuals, bordersOut;
  llvm::SmallVector<std::pair<Item, mlir::Attribute>> states; // results
  llvm::SmallVector<std::pair<Item, unsigned>> outputs;       // results, by index
  llvm::SmallVector<Unit> units;
  llvm::DenseSet<Item> available;   // as an argument, or recomputed
  llvm::DenseMap<Item, mlir::Value> values; // while writing
  mlir::func::FuncOp func;

  void place(int64_t s, bool b) { stage = s, backward = b; }
};

class MicroSplitter {
public:
  MicroSplitter(mlir::func::FuncOp micro, StageSplit &split) : micro(micro), split(split) {
    for (bool backward : {false, true})
      for (int64_t stage = 0; stage < split.stages; ++stage)
        procedures.emplace_back().place(stage, backward);
  }
  mlir::LogicalResult run();

private:
  StageFunction &at(int64_t stage, bool backward) {
    return procedures[stage + (backward ? split.stages : 0)];
  }
  // Decides which units each procedure runs and which items it needs.
  mlir::LogicalResult readLayers(graph::RepeatOp op);
  mlir::LogicalResult collectUnits();
  mlir::LogicalResult addResults();
  mlir::LogicalResult addState(mlir::OpOperand &use, mlir::FlatSymbolRefAttr state);
  mlir::LogicalResult addOutput(mlir::OpOperand &use);
  bool isFed(mlir::Operation *op);
  bool isFree(mlir::Operation *op);
  mlir::LogicalResult needAll(const Unit &unit);
  mlir::LogicalResult need(Item item, StageFunction &user, mlir::Operation *why);
  mlir::LogicalResult needFromForward(Item item, int64_t from, StageFunction &user, mlir::Operation *why);
  void pass(Item item, int64_t from, StageFunction &to);
  void hold(mlir::BlockArgument arg, Item item, int64_t stage);
  mlir::FailureOr<Item> stackedItem(mlir::Value value, int64_t part, graph::RepeatOp user);
  std::optional<Item> slicedItem(mlir::Operation *op) const;
  std::optional<Item> pieceOf(mlir::Value value, int64_t part, graph::RepeatOp user) const;
  int64_t firstLayer(mlir::Operation *repeat, int64_t part) const;
  Item normal(mlir::Value value) const;
  Item itemOn(int64_t stage, mlir::Value value) const;
  int64_t partWith(mlir::Value carried, int64_t part) const;
  // Writes the functions of the procedures.
  mlir::RankedTensorType typeOf(Item item) const;
  bool isStacked(Item item) const;
  void write(StageFunction &procedure);
  void writeUnit(StageFunction &procedure, const Unit &unit, mlir::OpBuilder &builder);
  void writeRepeat(StageFunction &procedure, const Unit &unit, mlir::OpBuilder &builder);
  void writeReturn(StageFunction &procedure, mlir::OpBuilder &builder);
  mlir::Value lookup(StageFunction &procedure, Item item, mlir::OpBuilder &builder);

  mlir::func::FuncOp micro;
  StageSplit &split;
  llvm::SmallVector<StageFunction, 4> procedures;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t>> layers; // of split repeats
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> stackedBy;    // of split stacked values
  llvm::DenseMap<mlir::Operation *, bool> fedOps;
  StageSums shares;
  llvm::DenseSet<mlir::Value> apart; // sums of layers that each stage adds by itself
};

// Returns the part of a split repeat that runs before `part` (-1: the last part of all); -1 if none
// does. `layers` has the number of layers of each part.
int64_t partBefore(graph::RepeatOp op, llvm::ArrayRef<int64_t> layers, int64_t part);

} // namespace llmc::stages

#endif // LLMC_PASSES_PARTITION_SPLITSTAGES_MICROSPLITTER_H
