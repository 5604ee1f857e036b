// Values seen lane by lane: a lane is one element of the last dims, flattened; the
// dims in front of them are only moved.
#ifndef LLMC_PASSES_RAISE_RAISEROTARY_LANES_H
#define LLMC_PASSES_RAISE_RAISEROTARY_LANES_H

#include "passes/1-raise/Movement.h"

#include <list>
#include <map>
#include <memory>

namespace llmc::raise {

// Dims of a value as those of another one, its lanes not counted: where each comes from.
using Frame = llvm::SmallVector<Movement::Parts, 4>;
bool operator==(const Movement::Part &a, const Movement::Part &b);

// One lane of a table: a value of which the last `dims` dims are lanes. The others meet
// those of `frame` where the table was multiplied; who only reads the table needs none.
struct TableLane {
  mlir::Value table;
  int64_t dims = 0, lane = 0;
  const Frame *frame = nullptr;
};

// factor * x[lane] * table; a null table is 1.
struct Term {
  double factor = 1;
  int64_t lane = 0;
  TableLane table;
};
using Terms = llvm::SmallVector<Term, 2>; // their sum

// Values as linear functions of `x`, whose last dim is its lanes.
class LinearLanes {
public:
  explicit LinearLanes(mlir::Value x);

  // Whether every lane of `value` is a sum of terms; looks at no lane.
  bool isLinear(mlir::Value value);
  // What the dims of a linear value are of those of x, down to the last larger than 1;
  // those behind hold the lanes.
  const Frame &frameOf(mlir::Value value) const { return *linear.find(value)->second; }
  // The terms of each lane of a linear value. Their frames live as long as this.
  const std::vector<Terms> &lanesOf(mlir::Value value);

private:
  std::optional<Frame> find(mlir::Operation *op, mlir::Value value);
  std::optional<Frame> reshaped(Frame frame, mlir::Value from, mlir::Value to) const;
  std::optional<Frame> transposed(const Frame &frame, graph::TransposeOp op) const;
  llvm::ArrayRef<int64_t> lanesShape(mlir::Value value) const;
  std::vector<Terms> compute(mlir::Value value);
  std::vector<Terms> product(mlir::Operation *op);

  mlir::Value x;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Frame>> linear; // null: it is not
  std::list<Frame> frames;                                    // of tables
  llvm::DenseMap<mlir::Value, std::vector<Terms>> lanes;
};

// Looks at tables, each question once: layers ask the same ones.
class Tables {
public:
  // 1 if the lanes hold equal numbers, -1 if one is the negative of the other,
  // 0 if neither is proven.
  int relation(const TableLane &a, const TableLane &b);

  // The table of these lanes as [leading dims of the table..., lanes]; null if
  // they are not evenly spaced.
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
