// Runs the raise phase, prints its canonical text, and compares numbers before and after it.
#ifndef LLMC_TEST_PASSES_RAISE_HARNESS_H
#define LLMC_TEST_PASSES_RAISE_HARNESS_H

#include "dialects/graph/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace llmc::test {

// Runs the whole phase and then the verifier; false if one fails.
bool raise(mlir::ModuleOp module, bool recognize = true);

mlir::func::FuncOp forwardOf(mlir::ModuleOp module);
int64_t count(mlir::ModuleOp module, llvm::StringRef op);
int64_t layersOf(mlir::ModuleOp module); // graph.model.layers

// Prints the states and @forward without sources, the views into them and the model's own
// attributes.
std::string canonicalText(mlir::ModuleOp module);

// Draws values for every source, by symbol; a module keeps its sources through the phase.
using Sources = std::map<std::string, graph::Tensor>;
Sources drawSources(mlir::ModuleOp module, std::mt19937 &random);

// Evaluates @forward on the sources; integer inputs count up below `ids`, float inputs are fixed.
std::vector<graph::Tensor> run(mlir::ModuleOp module, const Sources &sources, int64_t ids);

// Returns the largest difference relative to the largest element; infinity if shapes differ, NaN
// if an element is.
double difference(const graph::Tensor &a, const graph::Tensor &b);

// Checks that the phase succeeds and keeps all results within 1e-12.
void expectSameNumbers(mlir::ModuleOp module, std::mt19937 &random, int64_t ids,
                       const std::string &name, bool recognize = true);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_RAISE_HARNESS_H
