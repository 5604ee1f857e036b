// Counts what the ops of one block compute and move: products by their sizes, attention, collectives, bytes of all
// else. Tests: test/predict/TableTest.cpp.
#ifndef LLMC_LIB_PREDICT_WORKCOUNTER_H
#define LLMC_LIB_PREDICT_WORKCOUNTER_H

#include "dialects/graph/Graph.h"
#include "dialects/parallel/Parallel.h"
#include "lib/cost/Software.h"
#include "lib/cost/Table.h"
#include "llvm/ADT/DenseMap.h"

namespace llmc::predict {

class WorkCounter {
public:
  // Takes the mesh of the collectives. Of other software than our own, products that read one operand or add into one
  // result are one; of all that fuses, values between elementwise ops take no bytes.
  WorkCounter(parallel::MeshAttr mesh, cost::Profile software)
      : mesh_(mesh), isOurs_(software == cost::Profile::Llmc), merges_(software != cost::Profile::Llmc), fuses_(software != cost::Profile::Eager) {}

  // Adds an op to the work of its block; the same `work` must come for all ops of a block.
  void count(mlir::Operation *op, cost::Work &work);

private:
  // Identifies the dimension along which two products are joined to one.
  enum class Joins { Columns, Depth };

  void add(cost::Work &work, cost::Product product, mlir::Value key, Joins joins);
  void countMatmul(graph::MatmulOp op, cost::Work &work);
  void countGrouped(graph::GroupedMatmulOp op, cost::Work &work);
  void countOuter(graph::GroupedOuterOp op, cost::Work &work);
  void countCollective(parallel::CollectiveOpInterface op, cost::Work &work);
  void countBytes(mlir::Operation *op, cost::Work &work);
  cost::Group groupOf(mlir::ArrayAttr axes);

  parallel::MeshAttr mesh_;
  bool fuses(mlir::Operation *op) const;
  bool staysInKernel(mlir::Value value) const;
  bool endsLayer(mlir::Value value) const;
  bool isOurs_, merges_, fuses_;
  llvm::DenseMap<std::pair<cost::Work *, mlir::Value>, size_t> merged_; // the product that a key stands for
};

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_WORKCOUNTER_H
