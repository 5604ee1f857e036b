// Interprets the functions of all stages on all ranks in lock step (used by Evaluate.cpp). Tests:
// test/passes/3-shard/StepTest.cpp, test/passes/4-partition/StepTest.cpp.
#ifndef LLMC_DIALECTS_PARALLEL_LOCKSTEPINTERPRETER_H
#define LLMC_DIALECTS_PARALLEL_LOCKSTEPINTERPRETER_H

#include "dialects/graph/Rounding.h"
#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Collectives.h"

#include <functional>
#include <memory>

namespace llmc::parallel {

// Receives each op of the graph dialect that a rank of a mesh executes, with its operands.
using Observer =
    std::function<void(int64_t rank, mlir::Operation *op, llvm::ArrayRef<const graph::Tensor *> operands)>;

class LockstepInterpreter {
public:
  explicit LockstepInterpreter(MeshAttr mesh, graph::Rounding rounding = graph::Rounding::None,
                               Observer observe = {});

  int64_t numRanks() const { return mesh.getNumRanks(); }
  // Returns the coordinate of a rank along an axis; 0 if the mesh has no such axis.
  int64_t coordinate(int64_t rank, llvm::StringRef axis) const;
  // Returns the row-major coordinate of a rank over several axes.
  int64_t coordinate(int64_t rank, llvm::ArrayRef<mlir::StringAttr> axes) const;
  int64_t stageOf(int64_t rank) const;
  llvm::SmallVector<int64_t> ranksOfStage(int64_t stage) const;
  // Returns the rank of `stage` whose other coordinates are those of `rank`.
  int64_t neighbour(int64_t rank, int64_t stage) const;

  // Returns the indices at which a rank's shard begins in the global tensor.
  llvm::SmallVector<int64_t> startsOf(int64_t rank, ShardingAttr sharding,
                                      llvm::ArrayRef<int64_t> localShape) const;
  Tensor partOf(const Tensor &whole, int64_t rank, ShardingAttr sharding) const;

  using Tensors = std::vector<Tensor>;
  // Runs one function per stage (null: none), all at once. `arguments` and the result are per rank;
  // ranks of a stage without a function have neither. Fails with a diagnostic if an op cannot run,
  // or if stages wait for each other forever.
  mlir::FailureOr<std::vector<Tensors>> run(llvm::ArrayRef<mlir::func::FuncOp> stages,
                                            std::vector<Tensors> arguments);

  // Counts the executed collectives, once per group.
  int64_t collectives = 0;

private:
  using Held = std::shared_ptr<Tensor>; // shared where a value passes through unchanged
  using Values = llvm::DenseMap<mlir::Value, Held>;
  struct Stage {
    mlir::Block::iterator next, end;
    llvm::SmallVector<int64_t> ranks;
    bool blocked = false;
  };

  mlir::LogicalResult advance(Stage &stage);
  mlir::LogicalResult execute(mlir::Operation *op, llvm::ArrayRef<int64_t> ranks);
  mlir::LogicalResult executeRepeat(graph::RepeatOp op, llvm::ArrayRef<int64_t> ranks);
  mlir::LogicalResult executeGroups(llvm::ArrayRef<int64_t> ranks,
                                    llvm::function_ref<mlir::Operation *(int64_t)> opOf);
  void executeGroup(llvm::ArrayRef<int64_t> group,
                    llvm::function_ref<mlir::Operation *(int64_t)> opOf);
  mlir::LogicalResult unblock(llvm::MutableArrayRef<Stage> stages);
  void set(int64_t rank, mlir::Value value, Tensor tensor);
  // Frees the values that no later op of the block reads.
  void release(mlir::Operation *op, llvm::ArrayRef<int64_t> ranks);
  void findLastUses(mlir::Block *block);

  MeshAttr mesh;
  graph::Rounding rounding;
  Observer observe;
  std::vector<Values> values; // per rank
  llvm::DenseSet<mlir::Block *> walked;                                         // by findLastUses
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 2>> lastUses; // of values
};

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_LOCKSTEPINTERPRETER_H
