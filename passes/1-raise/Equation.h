// Provides what this phase asks of a matmul's equation. Tests:
// test/passes/1-raise/split-fused-weights.mlir, fold-shapes.mlir.
#ifndef LLMC_PASSES_RAISE_EQUATION_H
#define LLMC_PASSES_RAISE_EQUATION_H

#include "dialects/graph/Equation.h"
#include "dialects/graph/Graph.h"

namespace llmc::raise {

using graph::Equation;

inline Equation equationOf(graph::MatmulOp op) { return *Equation::parse(op.getEquation()); }

inline bool has(const std::string &letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

// Returns a letter that is not in `used`; 0 if there is none.
inline char freshLetter(const std::string &used) {
  for (char c = 'a'; c <= 'z'; ++c)
    if (!has(used, c))
      return c;
  return 0;
}

} // namespace llmc::raise

#endif // LLMC_PASSES_RAISE_EQUATION_H
