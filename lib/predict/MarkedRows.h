// Reads a model with a number of rows of a micro-batch that marks what grows with them: a prime that divides no other size, so
// that a dimension is a multiple of it if and only if it has rows. From one reading follow the sizes of all numbers of rows.
// Tests: test/search/SampledTablesTest.cpp (beside tables that were read with as many rows).
#ifndef LLMC_LIB_PREDICT_MARKEDROWS_H
#define LLMC_LIB_PREDICT_MARKEDROWS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace llmc::predict {

// Returns a number of rows that marks those of `oneRow`, a module of one row, and no size to which a mesh may pad one of its
// sizes: the largest up to a million of which tensors can be counted; nullopt if none is.
std::optional<int64_t> markRows(mlir::ModuleOp oneRow);

// Returns whether no state of a partitioned module is a multiple of `marked`: a flat one has a sum of sizes, as has its gradient,
// which may be a multiple of any number.
bool marksNoState(mlir::ModuleOp module, int64_t marked);

// Gives the tensors of a module that was read with `marked` rows the sizes that they have with others. Types alone change, not
// attributes: what counts the work of a module reads types.
class MarkedRows {
public:
  MarkedRows(mlir::ModuleOp module, int64_t marked);
  void set(int64_t rows);

private:
  std::vector<std::pair<mlir::Value, mlir::RankedTensorType>> values_; // that have rows, with their marked types
  int64_t marked_;
};

} // namespace llmc::predict

#endif // LLMC_LIB_PREDICT_MARKEDROWS_H
