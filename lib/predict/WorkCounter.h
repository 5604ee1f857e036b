// Counts what the ops of one block compute and move: products by their sizes, attention, collectives, bytes of all
// else. Tests: test/predict/TableTest.cpp.
#ifndef LLMC_LIB_PREDICT_WORKCOUNTER_H
#define LLMC_LIB_PREDICT_WORKCOUNTER_H

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Parallel.h"
#include "lib/cost/Software.h"
#include "lib/cost/Table.h"
#include "lib/predict/OverlappedExchanges.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/SymbolTable.h"

namespace llmc::predict {

class WorkCounter {
public:
  // Takes the mesh of the collectives. Our own kernels have been found, and each op is what it says. Of other software,
  // products that read one operand or add into one result are one; of that which fuses, values between elementwise ops
  // take no bytes. `symbols` are those of the module, and live as long. Ranks of experts have `room` times the rows that they
  // get on average.
  WorkCounter(parallel::MeshAttr mesh, const mlir::SymbolTable &symbols, cost::Profile software, double room = 1)
      : mesh_(mesh), symbols_(symbols), isOurs_(software == cost::Profile::Llmc), fuses_(software == cost::Profile::Fused), room_(room) {}

  // Adds an op to the work of its block; the same `work` must come for all ops of a block.
  void count(mlir::Operation *op, cost::Work &work);
  // Adds all ops of a layer of our own plans, in the order in which these run them.
  void countLayer(mlir::Block &block, cost::Work &work);
  // Sets, when all ops of a block of our own plans have come, which entries wait for a collective.
  void finish(cost::Work &work);

private:
  // Identifies the dimension along which two products are joined to one.
  enum class Joins { Columns, Depth };

  bool countOfPlan(mlir::Operation *op, cost::Work &work);
  void add(cost::Work &work, cost::Product product, mlir::Value key, Joins joins);
  void countMatmul(graph::MatmulOp op, cost::Work &work);
  void countGrouped(graph::GroupedMatmulOp op, cost::Work &work);
  void countOuter(graph::GroupedOuterOp op, cost::Work &work);
  // Counts a kernel of our own plans that moves a value.
  void countMove(mlir::Value moved, cost::Work &work);
  void countCollective(parallel::CollectiveOpInterface op, cost::Work &work);
  void countBytes(mlir::Operation *op, cost::Work &work);
  cost::Group groupOf(mlir::ArrayAttr axes);

  bool addsToSum(mlir::Operation *op) const;
  void setResult(mlir::Operation *op, cost::Product &product) const;

  parallel::MeshAttr mesh_;
  const mlir::SymbolTable &symbols_;
  bool fuses(mlir::Operation *op) const;
  bool staysInKernel(mlir::Value value) const;
  bool isOurs_, fuses_;
  double room_;
  size_t firstReader(mlir::Operation *op, const cost::Work &work) const;
  // Orders the entries of two layers, each with `ops` whose entries begin at `begins`.
  std::vector<cost::Entry> orderOfTwo(mlir::Block &block, const std::vector<TimedOp> &ops, const std::vector<size_t> &begins,
                                      const cost::Work &work) const;
  void enter(mlir::Operation *op, cost::Work &work, cost::Entry entry);
  // Holds the entry of each op, and the collectives whose readers are not known yet.
  llvm::DenseMap<mlir::Operation *, std::pair<cost::Work *, size_t>> entries_;
  llvm::SmallVector<mlir::Operation *> collectives_;
  llvm::DenseMap<std::pair<cost::Work *, mlir::Value>, size_t> merged_; // the product that a key stands for
};

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_WORKCOUNTER_H
