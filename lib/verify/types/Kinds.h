// Tells what the values of a partitioned module are (activations, statistics, tables) by what they
// are computed from, without asking how their types were decided. Test: test/verify/TypesTest.cpp.
#ifndef LLMC_LIB_VERIFY_TYPES_KINDS_H
#define LLMC_LIB_VERIFY_TYPES_KINDS_H

#include "dialects/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace llmc::verify {

enum class ValueKind {
  Number,    // the same everywhere
  Table,     // computed from inputs and constants alone: masks, angles
  Weight,    // computed from parameters, tables and numbers alone
  State,     // masters, moments and accumulators, and what the update computes from them
  Statistic, // one number of many: of a row's norm or softmax, a sum, the loss
  Promoted,  // an activation that met a table or a statistic in f32, up to the next product
  Activation,
};

// Answers for the functions of the stages; remembers its answers, so the module must not change.
class ValueKinds {
public:
  explicit ValueKinds(mlir::ModuleOp module);

  ValueKind of(mlir::Value value);
  // Returns whether every use of a value carries it, as a term of sums, to an accumulator; with
  // `scattered` also through the sums of a lookup's gradient.
  bool endsInAccumulator(mlir::Value value, bool scattered = false);
  // Returns the role of the state that an argument of a function is bound to; none if it is bound
  // to no state, or to a sum of the step that belongs to no parameter.
  std::optional<graph::Role> stateOf(mlir::Value value) const;

private:
  // Identifies what leaves one function and enters another: "forward", "backward" (from stage to
  // stage) or "kept" (from a forward to its backward), the stage that takes it, and its number.
  using Passage = std::tuple<std::string, int64_t, int64_t>;
  ValueKind ofArgument(mlir::BlockArgument argument);
  ValueKind ofResult(mlir::OpResult result);
  ValueKind ofOperands(mlir::Operation *op);
  bool endsInAccumulator(mlir::OpOperand &use, bool scattered);
  bool endsInAccumulator(mlir::func::ReturnOp op, unsigned index, bool scattered);
  bool dependsOnInput(mlir::Value value);
  static std::optional<Passage> passageOf(mlir::func::FuncOp func, mlir::DictionaryAttr attrs,
                                          bool leaves);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  std::map<Passage, mlir::Value> left;                       // by what they leave as
  std::map<Passage, llvm::SmallVector<mlir::Value>> entered; // arguments, by what they enter as
  llvm::DenseMap<mlir::Value, ValueKind> known;
  llvm::DenseMap<mlir::Value, bool> ends[2]; // with and without `scattered`
};

// Returns whether an op moves or repeats numbers without computing any.
bool isMovement(mlir::Operation *op);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_TYPES_KINDS_H
