// Lists functions with the values that they must return.
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

// Returns the formulas of norms, positions and masks of decoders.
std::vector<Formula> decoderFormulas();
// Returns the formulas of experts: routes, products of routed rows, and where the rows go.
std::vector<Formula> expertFormulas();
// Returns the formulas of halves, zero divisors, numbers beyond their range, rows and tensors
// without elements.
std::vector<Formula> edgeFormulas();

} // namespace llmc::graph::test

#endif // LLMC_TEST_DIALECTS_GRAPH_FORMULAS_H
