// Pairs the forward and the backward of a stage, and what the one keeps for the other. Test:
// test/passes/5-schedule/recompute.mlir, keep-exchanged.mlir.
#ifndef LLMC_PASSES_SCHEDULE_STAGEPAIR_H
#define LLMC_PASSES_SCHEDULE_STAGEPAIR_H

#include "dialects/parallel/Annotations.h"
#include "llvm/ADT/MapVector.h"

namespace llmc {

// Names where the backward has a value of the forward from, if nothing keeps it.
enum class Source {
  None,  // it does not have it
  State, // from states alone: it has it, whatever it takes to make it
  Input, // from what every procedure of a micro-batch is fed
};

// Represents a block of the forward and the block of the backward that computes its gradients: the
// bodies of two repeats, or of the two functions.
struct BlockPair {
  mlir::Block *forward, *backward;
  graph::RepeatOp forwardRepeat, backwardRepeat; // null for functions
  // Maps what is kept of the forward block to the arguments of the backward block that hold it.
  llvm::MapVector<mlir::Value, llvm::SmallVector<mlir::BlockArgument, 1>> kept;

  // Counts how often a kept value is kept for one micro-batch: the layers.
  int64_t layers() const {
    return forwardRepeat ? int64_t(graph::RepeatOp(forwardRepeat).getCount()) : 1;
  }
};

// Changes the residuals of one chunk of layers of a stage. Repeats may be
// replaced by keep() and clean(), so that a BlockPair is good until another one is changed.
class StagePair {
public:
  StagePair(mlir::func::FuncOp forward, mlir::func::FuncOp backward)
      : forward(forward), backward(backward) {}

  // Returns the pairs of blocks: the functions', then those of layers in the order of the forward.
  llvm::SmallVector<BlockPair, 2> pairs();
  // Keeps a value of the forward block for the backward. Returns the argument that holds it.
  mlir::BlockArgument keep(BlockPair &pair, mlir::Value value);
  // Returns, in the backward block, the value that an argument of the forward block has there
  // without being kept: a state or an input, or a slice of one. Null if there is none.
  mlir::Value import(BlockPair &pair, mlir::BlockArgument arg);
  // Returns what import() finds. Changes nothing.
  Source sourceOf(const BlockPair &pair, mlir::BlockArgument arg) const;
  // Drops what the backward does not read, and what the forward computes for that alone.
  void clean();

  mlir::func::FuncOp forward, backward;

private:
  // Returns the argument of backward that holds a value of the forward function, which is kept from now on.
  mlir::BlockArgument residualOf(mlir::Value value);

  Source sourceOfTop(mlir::Value value) const;
  mlir::Value importTop(mlir::Value value);

  llvm::DenseMap<mlir::Value, mlir::Value> imported; // from the forward function
};

// Erases what no result of a stage's function needs, in the bodies of its repeats too.
void cleanBlock(mlir::Block &block);

// Returns whether two ops compute the same of equal operands, wherever they come from.
bool computesAlike(mlir::Operation *a, mlir::Operation *b);

// Returns the forward and the backward of each chunk of layers, in the order of the forwards.
llvm::SmallVector<std::pair<mlir::func::FuncOp, mlir::func::FuncOp>> functionPairs(mlir::ModuleOp module);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_STAGEPAIR_H
