// Follows what a mixture of experts computes of its routes, op by op, and writes it on
// [token..., choice, feature]. Tests: test/passes/1-raise/raise-experts.mlir.
#ifndef LLMC_PASSES_RAISE_RAISEEXPERTS_MIXTURE_H
#define LLMC_PASSES_RAISE_RAISEEXPERTS_MIXTURE_H

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "passes/1-raise/Constants.h"

#include <map>

namespace llmc::raise {

// Describes what a value of the file is. Its elements are those of `value` in the same order, whatever
// its shape; its rows may have another `order`, while `value` keeps that of tokens.
struct Meaning {
  // Identifies what the elements are. Tokens are of value [token..., F], Rows of [token..., choice, F]; those
  // of all choices are equal and value is [token..., F] if `shared`; both lack a last dim of 1. Matrices
  // are those of each row's expert, of the table `value` [expert, a, b]. Numbers are a function of each
  // row's expert (OfExpert), of the row that stands at each place of the sorted ones (OfSortedRow), or of
  // the place of each row (OfPlace): `table` has its results. Counts and Bounds are the rows of each
  // expert, and of all experts up to it; Bound is element `index` of the bounds.
  // Of a loop over experts OneHot has `table` [other, own] for each expert (dim `index`) and row, Hits is a
  // function of the number of each expert's rows, HitsUpTo of the number of experts with rows up to each
  // one. OneExpert is the number of the expert `block`, whose matrix or vector of the table `value` is
  // OneMatrix; RowMask is a function, `table` [other, own], of whether a row is its. PartSum is what the
  // blocks in `parts` add to tokens, of the rows `value`.
  enum Kind { Tokens, Rows, Matrices, OfExpert, OfSortedRow, OfPlace, Counts, Bounds, Bound,
              OneHot, Hits, HitsUpTo, OneExpert, OneMatrix, RowMask, PartSum };
  // Identifies the order of rows: as tokens and their choices lie, by expert, or all first choices first.
  enum Order { InPlace, ByExpert, ByChoice };
  // Identifies a block of a loop: that of the `index`-th expert which has rows, or of expert `index`.
  struct Block {
    bool hit;
    int64_t index;
    bool operator==(const Block &other) const { return hit == other.hit && index == other.index; }
  };
  Kind kind;
  mlir::Value value;
  bool shared = false;
  Order order = InPlace;
  std::vector<double> table;
  int64_t index = 0;
  // States that rows equal `value` only where the expert is that of the block, and are zeros elsewhere if
  // `zeros`.
  std::optional<Block> block;
  bool zeros = false;
  llvm::SmallVector<std::pair<int64_t, mlir::Value>> parts; // of each block, with its rows

  // Returns whether each element is a function, with the results `table`, of a number that is known.
  bool isNumbers() const {
    return kind == OfExpert || kind == OfSortedRow || kind == OfPlace || kind == OneHot || kind == Hits ||
           kind == HitsUpTo || kind == RowMask;
  }
  // Returns whether the table has 0, 1, ..., each `times` times.
  bool counts(int64_t times = 1) const;
};

// Follows one route.
class Mixture {
public:
  explicit Mixture(graph::RouteOp route);

  // Finds what the ops behind the route mean; builds ops beside them.
  void follow();
  // Puts what was built in place of what other ops read, if products are among it; returns their number.
  int64_t replace();
  // Returns how many experts a loop was unrolled for if these are not all, else 0.
  int64_t unrolledFor() const { return unrolled_; }
  int64_t experts() const { return experts_; }

private:
  using Found = std::optional<Meaning>;

  const Meaning *meaningOf(mlir::Value value) const;
  void replacePart(mlir::Value value, const Meaning &sum);
  Found find(mlir::Operation *op);

  // Finds integers that say where rows lie (Numbers.cpp).
  Found numbers(mlir::Operation *op);
  Found evaluated(mlir::Operation *op);
  Found sortedBy(graph::RouteOp op);
  Found expertsOfPlaces(graph::ReduceOp op);
  Found takeAlong(graph::TakeAlongOp op);
  Found gathered(graph::GatherOp op);
  Found scattered(graph::ScatterAddOp op);

  // Finds what loops over experts compute (Loops.cpp).
  Found looped(mlir::Operation *op);
  Found oneHot(graph::CompareOp op);
  Found maskedRows(graph::SelectOp op);
  Found sumOfBlocks(graph::AddOp op);
  Found productOfBlock(graph::MatmulOp op);
  Found productOfRows(graph::MatmulOp op);
  // Returns what rows of all experts are if `rows` has those of each, which differ in parameters: null if they
  // differ otherwise.
  mlir::Value joined(graph::Build &build, llvm::ArrayRef<mlir::Value> rows);
  Found vectorOfBlock(graph::Build &build, const Meaning &vector) const;
  // Returns the order in which constant ids take rows of tokens (or of choices); nullopt for others.
  std::optional<Meaning::Order> orderOf(mlir::Value ids, bool ofChoices) const;

  // Finds what ops on rows compute (Rows.cpp).
  Found moved(mlir::Operation *op);
  Found sliced(graph::SliceOp op);
  Found elementwise(mlir::Operation *op);
  Found softmax(graph::SoftmaxOp op);
  Found reduced(graph::ReduceOp op);
  Found product(graph::MatmulOp op);
  Found product(graph::GroupedMatmulOp op);
  Found multiplied(graph::Build &build, const Meaning &rows, mlir::Value weights, bool transposed);

  int64_t rows() const { return tokens_ * choices_; }
  // Returns how many leading dims of a shape count `rows` elements together; nullopt if none do.
  static std::optional<size_t> leadingDims(llvm::ArrayRef<int64_t> shape, int64_t rows);
  bool alignsWithTokens(llvm::ArrayRef<int64_t> own, llvm::ArrayRef<int64_t> all) const;
  llvm::SmallVector<int64_t> shape(llvm::ArrayRef<int64_t> further) const;
  mlir::RankedTensorType type(llvm::ArrayRef<int64_t> further, mlir::Value like) const;
  // Returns the meaning of a value that does not depend on the routes, as tokens or as rows.
  Meaning adopted(graph::Build &build, mlir::Value value, bool asRows) const;
  // Returns the number of features of tokens or rows.
  int64_t featuresOf(const Meaning &meaning) const;
  // Returns tokens or rows as [token..., choice, F]: with 1 in place of the choices if all share them, and
  // without these if they are not wanted; without the features if there is one and they are not wanted.
  mlir::Value aligned(graph::Build &build, const Meaning &meaning, bool choices, bool features) const;
  // Returns tokens or rows of a value [token..., choice, F] or [token..., F].
  Meaning rowsOf(graph::Build &build, Meaning::Kind kind, mlir::Value value, Meaning::Order order = Meaning::InPlace) const;
  Meaning made(Meaning::Kind kind, mlir::Value value, Meaning::Order order = Meaning::InPlace) const;

  graph::RouteOp route_;
  llvm::SmallVector<int64_t> tokenDims_;
  int64_t tokens_ = 1, choices_ = 1, experts_ = 1;
  mlir::Value routes_; // [token..., choice]
  int64_t products_ = 0, unrolled_ = 0;
  std::map<std::vector<void *>, mlir::Value> joined_; // products of each expert -> that of all
  llvm::MapVector<mlir::Value, Meaning> meanings_;
};

// Returns whether two values are computed alike from the same values.
bool areAlike(mlir::Value a, mlir::Value b);
// Returns the product of sizes.
int64_t sizeOf(llvm::ArrayRef<int64_t> sizes);
// Returns the farthest value that has the same elements in the same order.
mlir::Value sourceOf(mlir::Value value);
// Returns the value before reshapes.
mlir::Value beforeReshapes(mlir::Value value);

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_RAISEEXPERTS_MIXTURE_H
