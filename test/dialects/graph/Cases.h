// Draws random programs of one op, and holds what the tests of the dialect share.
#ifndef LLMC_TEST_DIALECTS_GRAPH_CASES_H
#define LLMC_TEST_DIALECTS_GRAPH_CASES_H

#include "dialects/graph/Build.h"
#include "dialects/graph/Evaluate.h"
#include "dialects/graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace llmc::graph::test {

using Shape = std::vector<int64_t>;

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t below(int64_t bound) { return static_cast<int64_t>(engine() % bound); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int64_t outOf) { return below(outOf) == 0; }
  int64_t size(); // of a dimension, often even
  Shape shape(int64_t lowestRank, int64_t highestRank);
  Shape permutation(int64_t rank);
  // Returns a shape that broadcasts to `shape`: leading dimensions dropped, others 1.
  Shape smaller(const Shape &shape);

private:
  std::mt19937_64 engine;
};

struct Argument {
  enum Kind { Any, Distinct, Positive, Fraction, Ids, Logical } kind = Any;
  Shape shape;
  int64_t bound = 0; // of ids: -2 ... bound + 1 are drawn, so that some are outside
  bool fixed = false; // it gets no gradient
  bool distinct = false; // of ids: 0 ... size - 1, each once, and here and there one outside instead
};

// Describes one op on function arguments.
struct Case {
  std::string name;
  std::vector<Argument> arguments;
  std::function<mlir::Operation *(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)> build;
  enum Gradient { Checked, Zero, None } gradient = Checked;
};

// Draws one case for every op of the dialect (several for those with forms).
std::vector<Case> drawCases(Random &random);
void drawExperts(std::vector<Case> &cases, Random &random); // the part of them for experts

// Draws values on a grid, offset so that no two arguments tie and none is zero.
Tensor drawTensor(Random &random, const Argument &argument, size_t index);
std::vector<Tensor> drawInputs(Random &random, const Case &test);
mlir::Type elementType(mlir::MLIRContext *context, const Argument &argument);

// Adds `func @name(types)`, whose body `fill` builds and whose results `fill` returns.
mlir::func::FuncOp makeFunction(
    mlir::ModuleOp module, llvm::StringRef name, mlir::TypeRange types,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &, mlir::ValueRange)> fill);
mlir::func::FuncOp makeFunction(mlir::ModuleOp module, const Case &test);
mlir::Operation *onlyOp(mlir::func::FuncOp func);

// Compares the largest difference over max(1, largest magnitude of `want`) with `tolerance`.
void expectClose(const std::string &what, const Tensor &got, const Tensor &want, double tolerance);

// Verifies and evaluates a function; empty after a failure.
std::vector<Tensor> run(const std::string &what, mlir::func::FuncOp func,
                        llvm::ArrayRef<Tensor> inputs);

// Returns the context of all tests, with the dialects that they use.
mlir::MLIRContext *context();

// Returns the seed of each draw, --seed and those that follow it.
std::vector<uint64_t> seeds();

struct DrawnCase {
  Case test;
  uint64_t seed; // of its inputs
};

inline void PrintTo(const DrawnCase &drawn, std::ostream *out) { *out << drawn.test.name; }

// Tests one drawn case of an op.
class OpTest : public testing::TestWithParam<DrawnCase> {
protected:
  Random random{GetParam().seed};
};

} // namespace llmc::graph::test

#endif // LLMC_TEST_DIALECTS_GRAPH_CASES_H
