// Folds what would be too large a constant to its definition: a mask of rows x keys from positions.
// Tested by test/numerics/masks.py.
#ifndef LLMC_LIB_ONNX_FOLD_SYMBOLIC_H
#define LLMC_LIB_ONNX_FOLD_SYMBOLIC_H

#include "lib/onnx/fold/Constant.h"
#include "lib/support/Definition.h"

#include <variant>

namespace llmc::onnximport {

// Bounds the elements of a constant that is always held; a larger one is defined if it is that much
// larger than what it is computed from.
constexpr int64_t mostHeldElements = int64_t(1) << 20, leastGrowth = 256;

// Holds a constant as its definition. Integers are exact to 2^53: a larger one fails.
struct Symbolic {
  Element element = Element::F32;
  support::DefinitionRef definition;

  Shape shape() const {
    return Shape(definition->shape().begin(), definition->shape().end());
  }
};

// Represents an operand of a fold: one of both, or neither if it is left out.
struct FoldOperand {
  const Constant *known = nullptr;
  const Symbolic *symbolic = nullptr;
};
// Represents a result of a fold: it is held if that takes no more room than the operands.
using Folded = std::variant<Constant, Symbolic>;

// Evaluates a node to definitions. Returns nullopt if no operand is symbolic and the results can be
// held, or for an op or form of it that cannot be defined.
support::Result<std::optional<std::vector<Folded>>>
foldSymbolic(const Node &node, FoldFunction fold, llvm::ArrayRef<FoldOperand> operands);

// Returns all elements; dims along which they repeat are held as 1. Fails above maxHostElements.
support::Result<Constant> held(const Symbolic &symbolic);

} // namespace llmc::onnximport

#endif // LLMC_LIB_ONNX_FOLD_SYMBOLIC_H
