// Propagates the mesh axes of a tactic over a whole module, from its seeds to a fixpoint. Tests:
// test/passes/3-shard/MockTacticTest.cpp (a tactic of its own), ShardingTest.cpp (all tactics).
#ifndef LLMC_PASSES_SHARD_PROPAGATION_H
#define LLMC_PASSES_SHARD_PROPAGATION_H

#include "dialects/parallel/Annotations.h"

namespace llmc {

// Extends the annotations of a module by one atomic axis. An axis cuts at most one dimension of a
// value and one factor of an op, whichever tactic put it there. The first cut wins; the use that
// loses has a requirement that differs from its definition, and phase 4 reshards there. Inputs are
// cut by seeds alone: their feed is divided by rows, not by factors of ops.
//
// A tactic may have a product of several axes. The first, which is the slowest, takes its seeds as
// they come and goes only where the others can follow; each other axis is a propagation of its own,
// from the same seeds, when the first is written.
class AxisPropagation {
public:
  struct Options {
    llvm::StringRef tactic;
    bool mayCutStates = true;
  };
  // Reads the annotations that are there. `axes` are atomic axes of the mesh, slowest first, and at
  // least one. Changes nothing before write().
  AxisPropagation(mlir::ModuleOp module, llvm::ArrayRef<mlir::StringAttr> axes, Options options);

  // Returns whether `dim` can be cut in addition to the cuts of `value` that are there: the value
  // does not have the axis yet, and the whole product divides the size or padding is allowed.
  bool canCut(mlir::Value value, int64_t dim) const;
  // Returns the dimension of `value` that the axis cuts, or -1.
  int64_t dimOf(mlir::Value value) const;
  // Returns the factor of `op` that the axis cuts, or -1.
  int64_t factorOf(mlir::Operation *op) const;
  // Returns whether an earlier tactic has cut a factor of the op over an axis.
  bool usesAxis(mlir::Operation *op, mlir::StringAttr which) const;
  // Returns the factor of `op` that takes the axis if the axis cuts `dim` of `value`, an operand or
  // result with the factors `dims`; -1 if none can.
  int64_t factorFor(mlir::Operation *op, const graph::TensorFactors &dims, int64_t dim,
                    mlir::Value value) const;
  const graph::ShardingRule &ruleOf(mlir::Operation *op) const;

  // Cuts `dim` of `value`, and propagates to a fixpoint; does nothing where that is not allowed.
  // `seed` names the node in parallel.origin, `tactic` the tactic if it is not that of the pass.
  void cut(mlir::Value value, int64_t dim, llvm::StringRef seed, llvm::StringRef tactic = "");
  // Returns the seed of the cut by which the axis reached `value`; empty if it did not.
  llvm::StringRef seedOf(mlir::Value value) const;
  // Forbids every later cut of `dim` of `value`, and of the values that are tied to it: an op that
  // makes one of them is not cut along it.
  void pin(mlir::Value value, int64_t dim);
  // Forbids the same, but not a cut of an op that uses one of them: it takes a part of what is whole.
  void keep(mlir::Value value, int64_t dim);
  // Cuts `factor` of `op`, and those of its results that nothing has cut, whatever its neighbours have:
  // its operands are resharded, and so are results that have other cuts where they are used. `op` is
  // one that was excluded before.
  void take(mlir::Operation *op, unsigned factor, llvm::StringRef seed);
  // Forbids every later cut of `op`.
  void exclude(mlir::Operation *op);
  bool isPinned(mlir::Value value, int64_t dim) const { return pinned.contains({value, dim}); }
  // Allows cuts of `dim` that do not divide its size: PadDims makes it grow.
  void allowPadding(mlir::Value value, int64_t dim);

  // Writes parallel.in / out / args / sharding / origin, of all axes of the product; the axes after
  // the first are propagated here.
  void write();
  // Reports as remarks the uses whose requirement differs from their definition, unless it is only
  // cut further. Returns their number.
  unsigned reportConflicts();

private:
  // Records one call of cut(), take(), pin(), keep(), exclude() or allowPadding(), which the next axis of
  // the product repeats.
  struct Request {
    enum Kind { Cut, Pin, Keep, Pad, Exclude, Take } kind;
    mlir::Value value;
    int64_t dim;
    std::string seed, tactic;
    mlir::Operation *op = nullptr;
  };
  // Holds what is known of an op: its rule, and the axes that cut its factors before this propagation.
  struct Known {
    graph::ShardingRule rule;
    parallel::FactorAxes earlier;
  };
  // Takes over what the first axis of a product knows of ops and states when it has written its own cuts.
  explicit AxisPropagation(AxisPropagation &first);
  const Known &knownOf(mlir::Operation *op) const { return *known.find(op)->second; }
  graph::StateOp stateOf(mlir::FlatSymbolRefAttr name) const { return stateOps.lookup(name.getAttr()); }
  void writeOwn();
  void recordTactic();
  bool reaches(mlir::Operation *op, mlir::Value operand) const;
  parallel::Axes withProduct(parallel::Axes axes, mlir::Operation *op) const;
  void repeatOn(AxisPropagation &other, const Request &request) const;
  using Dims = llvm::DenseSet<std::pair<mlir::Value, int64_t>>;
  void insertTied(Dims &dims, mlir::Value value, int64_t dim);
  bool isKept(mlir::Value value, int64_t dim) const { return isPinned(value, dim) || kept.contains({value, dim}); }
  void tie(mlir::Value a, mlir::Value b, int64_t shift);
  void buildTies();
  void assign(mlir::Value value, int64_t dim);
  bool isExpressible(mlir::Operation *op, unsigned factor) const;
  bool cutsKept(mlir::Operation *op, unsigned factor) const;
  bool cutsTwice(mlir::Operation *op, unsigned factor) const;
  void visit(mlir::Operation *op);
  void spread(mlir::Operation *op, unsigned factor);
  parallel::ShardingAttr shardingOf(mlir::Value value) const;
  void writeOp(mlir::Operation *op);
  void writeRepeat(graph::RepeatOp op);
  void writeReturn(mlir::func::FuncOp func, const llvm::DenseMap<mlir::Attribute, parallel::ShardingAttr> &stateSharding);
  mlir::DictionaryAttr originOf(mlir::Operation *op, unsigned factor);

  mlir::ModuleOp module;
  mlir::StringAttr axis;
  parallel::Axes rest; // the other axes of the product
  std::unique_ptr<AxisPropagation> next;
  std::vector<Request> requests;
  Options options;
  parallel::MeshAttr mesh;
  // Identifies the node at which a cut began, and the tactic that began there.
  struct Seed {
    std::string node, tactic;
  };
  Seed currentSeed;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<Known>> known;
  llvm::DenseMap<mlir::StringAttr, graph::StateOp> stateOps; // by name
  llvm::DenseMap<mlir::Value, int64_t> dims;
  llvm::DenseMap<mlir::Operation *, int64_t> factors;
  llvm::DenseSet<mlir::Operation *> excluded;
  llvm::DenseMap<mlir::Operation *, Seed> seeds;
  llvm::DenseMap<mlir::Value, std::string> valueSeeds;
  // Maps a value to its tied values: dim d of a tied value is dim d + shift of the key.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<mlir::Value, int64_t>>> ties;
  Dims padded, pinned, kept;
  llvm::DenseSet<mlir::Value> states, inputs, seededInputs;
  llvm::SmallVector<mlir::Operation *> worklist;
};

} // namespace llmc

#endif // LLMC_PASSES_SHARD_PROPAGATION_H
