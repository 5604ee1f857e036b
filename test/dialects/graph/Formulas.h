// A function and what it must give.
#ifndef LLMC_TEST_DIALECTS_GRAPH_FORMULAS_H
#define LLMC_TEST_DIALECTS_GRAPH_FORMULAS_H

#include "Cases.h"

namespace llmc::graph::test {

struct Formula {
  const char *name;
  std::vector<Argument> arguments;
  const char *mlir; // @f, and perhaps @g that must equal it
  std::function<std::vector<double>(llvm::ArrayRef<Tensor>)> want; // of result 0; or null
};

// Norms, positions and masks of decoders.
std::vector<Formula> decoderFormulas();
// Halves, zero divisors, numbers beyond their range, rows and tensors without elements.
std::vector<Formula> edgeFormulas();

} // namespace llmc::graph::test

#endif // LLMC_TEST_DIALECTS_GRAPH_FORMULAS_H
