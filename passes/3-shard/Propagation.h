// The axes of a tactic over the whole module: from seeds to a fixpoint, axis by axis.
#ifndef LLMC_PASSES_SHARD_PROPAGATION_H
#define LLMC_PASSES_SHARD_PROPAGATION_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Extends the annotations of a module by one atomic axis. An axis cuts at most
// one dimension of a value and one factor of an op, whichever tactic put it there; who
// comes first wins, and the loser is a use whose requirement differs from its
// definition (a reshard). Inputs are cut by seeds alone: who feeds them knows of rows,
// not of factors.
//
// A tactic may have a product of several axes. The first, which is the slowest, takes its
// seeds as they come and goes only where the others can follow; each other is a
// propagation of its own, from the same seeds, when all are written.
class AxisPropagation {
public:
  struct Options {
    llvm::StringRef tactic;
    bool mayCutStates = true;
  };
  // Reads the annotations that are there. `axes` are of the mesh, slowest first, and
  // at least one.
  AxisPropagation(mlir::ModuleOp module, llvm::ArrayRef<mlir::StringAttr> axes, Options options);

  // May dimension `dim` of `value` be cut in addition to what is there?
  bool canCut(mlir::Value value, int64_t dim) const;
  // Dimension of `value` that the axis cuts, or -1.
  int64_t dimOf(mlir::Value value) const;
  // Factor of `op` that the axis cuts, or -1.
  int64_t factorOf(mlir::Operation *op) const;
  // The factor of `op` that takes the axis, if it cuts dimension `dim` of the
  // operand or result with these factors; -1 if none can.
  int64_t factorFor(mlir::Operation *op, const graph::TensorFactors &dims, int64_t dim,
                    mlir::Value value) const;
  const graph::ShardingRule &ruleOf(mlir::Operation *op) const;

  // Cuts `dim` of `value`, and all that follows. `seed` names the node for people; the
  // origin is `tactic` if it is not that of the pass.
  void cut(mlir::Value value, int64_t dim, llvm::StringRef seed, llvm::StringRef tactic = "");
  // Whose cut it was that the axis reached `value` by.
  llvm::StringRef seedOf(mlir::Value value) const;
  // `dim` of `value`, and of all that lies like it, is not to be cut from here on.
  void pin(mlir::Value value, int64_t dim);
  bool isPinned(mlir::Value value, int64_t dim) const { return pinned.contains({value, dim}); }
  // Dimensions of this value may be padded if they do not divide.
  void allowPadding(mlir::Value value, int64_t dim);

  // Writes parallel.in / out / args / sharding / origin, of all axes of the product.
  void write();
  // Uses whose requirement differs from the definition, as remarks; their number.
  unsigned reportConflicts();

private:
  // What a tactic asked for, for the next axis of the product.
  struct Request {
    enum Kind { Cut, Pin, Pad } kind;
    mlir::Value value;
    int64_t dim;
    std::string seed, tactic;
  };
  void writeOwn();
  void recordTactic();
  bool usesAxis(mlir::Operation *op, mlir::StringAttr which) const;
  bool reaches(mlir::Operation *op, mlir::Value operand) const;
  parallel::Axes withProduct(parallel::Axes axes, mlir::Operation *op) const;
  void pinTied(mlir::Value value, int64_t dim);
  void tie(mlir::Value a, mlir::Value b, int64_t shift);
  void buildTies();
  void assign(mlir::Value value, int64_t dim);
  bool isSayable(mlir::Operation *op, unsigned factor) const;
  void visit(mlir::Operation *op);
  void spread(mlir::Operation *op, unsigned factor);
  parallel::ShardingAttr shardingOf(mlir::Value value) const;
  void writeOp(mlir::Operation *op);
  void writeRepeat(graph::RepeatOp op);
  void setOrigin(mlir::Operation *op, unsigned factor);

  mlir::ModuleOp module;
  mlir::StringAttr axis;
  parallel::Axes rest; // the other axes of the product
  std::unique_ptr<AxisPropagation> next;
  std::vector<Request> requests;
  Options options;
  parallel::MeshAttr mesh;
  // A node, and the tactic that began there.
  struct Seed {
    std::string node, tactic;
  };
  Seed currentSeed;
  llvm::DenseMap<mlir::Operation *, graph::ShardingRule> rules;
  llvm::DenseMap<mlir::Operation *, parallel::FactorAxes> earlier;
  llvm::DenseMap<mlir::Value, int64_t> dims;
  llvm::DenseMap<mlir::Operation *, int64_t> factors;
  llvm::DenseMap<mlir::Operation *, Seed> seeds;
  llvm::DenseMap<mlir::Value, std::string> valueSeeds;
  // value -> (tied value, dims of it are this value's minus shift)
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<mlir::Value, int64_t>>> ties;
  llvm::DenseSet<std::pair<mlir::Value, int64_t>> padded, pinned;
  llvm::DenseSet<mlir::Value> states, inputs;
  llvm::SmallVector<mlir::Operation *> worklist;
};

} // namespace llmc

#endif // LLMC_PASSES_SHARD_PROPAGATION_H
