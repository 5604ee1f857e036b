// Groups the dimensions of a module into classes that stand for one quantity (width, heads,
// vocabulary) and chooses smaller sizes for them. Tested by test/verify/twin/IsomorphismTest.cpp
// and test/numerics/twin.py.
#ifndef LLMC_LIB_VERIFY_SCALED_DIMSCALER_H
#define LLMC_LIB_VERIFY_SCALED_DIMSCALER_H

#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/EquivalenceClasses.h"

#include <map>
#include <vector>

namespace llmc::verify {

// Returns whether a constant is a table of floats (angles of rotary embedding, a mask), whose
// leading part can replace it.
bool isNumbers(graph::ConstantOp constant);

// Holds the equivalence classes of the dimensions of all values and states of a raised module.
// Two dimensions are in one class if an op's sharding rule gives them one factor, or if they are
// two sides of one binding. A merged dimension is the product of its factors. Rows of the batch,
// layers, and dimensions that an op's attributes refer to (pad, concat, a table of integers) keep
// their sizes.
class DimScaler {
public:
  explicit DimScaler(mlir::ModuleOp module);

  // Chooses smaller sizes. With `divisor` d, a class of size n gets a size that is congruent to n
  // modulo d and at least 2 d, so that d divides it, or leaves the same remainder, as before. A
  // class that occurs only as an inner factor of products (the size of a head) keeps its parity
  // alone. Larger classes get larger sizes and equal ones equal sizes where products allow; sizes
  // that differ, whole or divided, stay different. Classes of sizes up to `kept` keep theirs.
  // With `fewTokens`, the tokens of a row get the least size, though larger ones than others
  // before: what a run costs is proportional to them.
  void shrink(int64_t divisor, int64_t kept = 0, bool fewTokens = false);

  // Returns the new shape. Requires shrink().
  std::vector<int64_t> shapeOf(mlir::Value value) const;
  std::vector<int64_t> shapeOf(graph::StateOp state) const;
  // Maps the old size of every class that has become smaller to its new sizes.
  const std::map<int64_t, std::vector<int64_t>> &changes() const { return changes_; }

private:
  using Dims = llvm::SmallVector<unsigned, 4>;
  struct Product {
    unsigned whole;
    std::vector<unsigned> parts; // most significant first
  };

  unsigned add(int64_t size);
  unsigned find(unsigned id) const { return classes_.getLeaderValue(id); }
  void unite(unsigned a, unsigned b);
  void keep(unsigned id) { keep_[find(id)] = true; }
  void keepAll(mlir::Value value);
  Dims addAll(mlir::Type type);
  void bind(const Dims &a, const Dims &b);

  void visit(mlir::Operation *op);
  void visitRepeat(graph::RepeatOp op);
  void visitSlice(graph::SliceOp op);
  void visitRule(mlir::Operation *op, const graph::ShardingRule &rule);
  void visitDim(unsigned dim, const graph::DimFactors &factors, const std::vector<unsigned> &ids);

  bool choose(int64_t divisor);
  void chooseFactors(int64_t divisor);
  bool computeProducts();
  void chooseRest(int64_t divisor);
  void raiseBounds(int64_t divisor);

  std::map<void *, Dims> values_, states_;
  std::vector<int64_t> size_, new_; // by leader; new_ is 0 until chosen
  llvm::EquivalenceClasses<unsigned> classes_;
  std::vector<bool> keep_, ofState_; // by leader
  int64_t kept_ = 0;
  bool fewTokens_ = false;
  std::vector<unsigned> tokens_; // dimensions of the step's inputs behind the rows
  std::vector<Product> products_;
  std::vector<std::pair<unsigned, unsigned>> atLeast_; // (a, b): a is at least b
  std::map<int64_t, std::vector<int64_t>> changes_;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SCALED_DIMSCALER_H
