// Ranks that run functions of stages in lock step (used by Evaluate.cpp).
#ifndef LLMC_DIALECTS_PARALLEL_MACHINE_H
#define LLMC_DIALECTS_PARALLEL_MACHINE_H

#include "dialects/parallel/Annotations.h"
#include "dialects/parallel/Collectives.h"

#include <memory>

namespace llmc::parallel {

class Machine {
public:
  explicit Machine(MeshAttr mesh);

  int64_t numRanks() const { return mesh.getNumRanks(); }
  // Coordinate of a rank along an axis (0 if the mesh has no such axis).
  int64_t coordinate(int64_t rank, llvm::StringRef axis) const;
  // Row-major coordinate over several axes.
  int64_t coordinate(int64_t rank, llvm::ArrayRef<mlir::StringAttr> axes) const;
  int64_t stageOf(int64_t rank) const;
  llvm::SmallVector<int64_t> ranksOfStage(int64_t stage) const;
  // The rank at the same place of another stage.
  int64_t neighbour(int64_t rank, int64_t stage) const;

  // Where the local part of a tensor begins in the global one.
  llvm::SmallVector<int64_t> startsOf(int64_t rank, ShardingAttr sharding,
                                      llvm::ArrayRef<int64_t> localShape) const;
  Tensor partOf(const Tensor &whole, int64_t rank, ShardingAttr sharding) const;

  using Tensors = std::vector<Tensor>;
  // Runs one function per stage (null: none), all at once. `arguments` and the
  // result are per rank; ranks of a stage without function have neither.
  mlir::FailureOr<std::vector<Tensors>> run(llvm::ArrayRef<mlir::func::FuncOp> stages,
                                            std::vector<Tensors> arguments);

  int64_t collectives = 0;

private:
  using Held = std::shared_ptr<Tensor>; // what passes through unchanged is shared
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
  // Frees what no later op of the block reads.
  void release(mlir::Operation *op, llvm::ArrayRef<int64_t> ranks);
  void findLastUses(mlir::Block *block);

  MeshAttr mesh;
  std::vector<Values> values; // per rank
  llvm::DenseSet<mlir::Block *> walked;                                         // by findLastUses
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value, 2>> lastUses; // of values
};

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_MACHINE_H
