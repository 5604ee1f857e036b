// Holds small models as text, and runs their training step in the reference interpreter.
#ifndef LLMC_TEST_PASSES_TRAIN_STEP_H
#define LLMC_TEST_PASSES_TRAIN_STEP_H

#include "dialects/graph/Graph.h"
#include "dialects/graph/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/2-train/Pipeline.h"
#include <map>
#include <random>

namespace llmc::test {

// Returns a decoder with a tied head, learned positions, `layers` folded blocks of layer norm,
// attention and a GELU MLP, and a final norm.
constexpr int64_t kVocabulary = 11;
constexpr int64_t kSequence = 5;
struct DecoderShape {
  int64_t width = 8, hidden = 12, heads = 2, vocabulary = kVocabulary;
};
std::string decoder(int64_t batch, int64_t layers, DecoderShape shape = {});

// Returns a model without blocks that uses all features of repeats: a nested reversed repeat,
// captured parameters and values, carried values that nothing reads, a stacked result, a stacked
// operand that is no parameter, a parameter stacked twice.
std::string oddRepeats();

// Maps names to the tensors of a step: states by symbol, inputs and outputs by their own names.
using Named = std::map<std::string, graph::Tensor>;

class Step {
public:
  // Parses a model; `unroll` then replaces the repeats of @forward by copies.
  explicit Step(const std::string &text, bool unroll = false);
  // Runs the phase; false if it failed.
  bool train(TrainOptions options = {});

  // Runs @micro or @update: arguments are looked up in `named` (missing
  // accumulators are zeros), results are written back.
  void run(llvm::StringRef function, Named &named);

  // Returns the symbols of the states of that role that belong to a parameter.
  std::vector<std::string> states(graph::Role role);
  // Draws normal values for every parameter and ids for every integer input.
  Named draw(unsigned seed);

  mlir::func::FuncOp function(llvm::StringRef name);
  mlir::ModuleOp module() { return *owner; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> owner;
};

inline graph::Tensor scalar(double value) {
  graph::Tensor tensor(std::vector<int64_t>{});
  tensor.data[0] = value;
  return tensor;
}

// Returns the L2 norm of a tensor, or of a difference.
double norm(const graph::Tensor &a);
double distance(const graph::Tensor &a, const graph::Tensor &b);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_TRAIN_STEP_H
