// Describes values lane by lane: a lane is one element of the last dims, flattened; the dims in
// front of them are only moved (test/passes/1-raise/raise-rotary.mlir).
#ifndef LLMC_PASSES_RAISE_RAISEROTARY_LANES_H
#define LLMC_PASSES_RAISE_RAISEROTARY_LANES_H

#include "passes/1-raise/Movement.h"

#include <list>
#include <map>
#include <memory>

namespace llmc::raise {

// Describes the leading dims of a value, its lanes not counted, as parts of another value's dims.
using LeadingDims = llvm::SmallVector<Movement::Parts, 4>;
bool operator==(const Movement::Part &a, const Movement::Part &b);

// Identifies one lane of a table, a value of which the last `dims` dims are lanes. The others align
// with those of `frame` where the table was multiplied; null where the table is only read.
struct TableLane {
  mlir::Value table;
  int64_t dims = 0, lane = 0;
  const LeadingDims *frame = nullptr;
};

// Represents factor * x[lane] * table; a null table is 1.
struct Term {
  double factor = 1;
  int64_t lane = 0;
  TableLane table;
};
using Terms = llvm::SmallVector<Term, 2>; // their sum

// Represents values as linear functions of `x`, whose last dim is its lanes.
class LinearLanes {
public:
  explicit LinearLanes(mlir::Value x);

  // Returns whether every lane of `value` is a sum of terms; computes no lane.
  bool isLinear(mlir::Value value);
  // Returns how the dims of a linear value, down to the last that is larger than 1 and no lane, are
  // dims of x; the dims behind hold the lanes.
  const LeadingDims &frameOf(mlir::Value value) const { return *linear.find(value)->second; }
  // Returns the terms of each lane of a linear value. Their frames live as long as this object.
  const std::vector<Terms> &lanesOf(mlir::Value value);

private:
  std::optional<LeadingDims> find(mlir::Operation *op, mlir::Value value);
  std::optional<LeadingDims> reshaped(LeadingDims frame, mlir::Value from, mlir::Value to) const;
  std::optional<LeadingDims> transposed(const LeadingDims &frame, graph::TransposeOp op) const;
  llvm::ArrayRef<int64_t> lanesShape(mlir::Value value) const;
  std::vector<Terms> compute(mlir::Value value);
  std::vector<Terms> product(mlir::Operation *op);

  mlir::Value x;
  llvm::DenseMap<mlir::Value, std::unique_ptr<LeadingDims>> linear; // null: it is not
  std::list<LeadingDims> frames;                                    // of tables
  llvm::DenseMap<mlir::Value, std::vector<Terms>> lanes;
};

// Compares and selects lanes of tables; caches the answers, since all layers ask for the same.
class RotaryTableLanes {
public:
  // Returns 1 if the lanes hold equal numbers, -1 if one is the negative of the other, 0 if neither
  // is proven.
  int relation(const TableLane &a, const TableLane &b);

  // Builds the table of these lanes as [leading dims of the table..., lanes]; returns null if they
  // are of several tables or not evenly spaced.
  mlir::Value select(llvm::ArrayRef<TableLane> lanes);

private:
  std::string keyOf(const TableLane &lane);
  int compare(const TableLane &a, const TableLane &b);
  mlir::Value pull(mlir::OpBuilder &builder, llvm::ArrayRef<TableLane> lanes);

  using Id = std::tuple<const void *, int64_t, int64_t>; // equal constants are one
  static Id idOf(const TableLane &lane);
  std::map<std::pair<Id, Id>, int> relations;
  std::map<std::vector<Id>, mlir::Value> selected;
};

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEROTARY_LANES_H
