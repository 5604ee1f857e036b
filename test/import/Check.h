// Declares what the tests of the importers share.
#ifndef LLMC_TEST_IMPORT_CHECK_H
#define LLMC_TEST_IMPORT_CHECK_H

#include "dialects/graph/Evaluate.h"
#include "dialects/graph/Graph.h"
#include "lib/options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace llmc::test {

// Returns all arguments of the command line if the first is `flag`, as the one instance of a test
// that runs only where it is asked for.
std::vector<std::vector<std::string>> argumentsAfter(const std::string &flag);

std::string dataPath(const std::string &name); // a path under test/data

CompileOptions optionsFor(int64_t batch, int64_t sequence);

// Imports a file by its extension. Returns null with the error in `message` if it is refused.
mlir::OwningOpRef<mlir::ModuleOp> import(mlir::MLIRContext &context, const std::string &path,
                                         const CompileOptions &options, std::string &message);

graph::Tensor readNpy(const std::string &path);

// Returns the values of all parameters of @forward, read from the files that the sources name,
// through the states' views; in argument order after `ids`.
std::vector<graph::Tensor> arguments(mlir::ModuleOp module, const graph::Tensor &ids);

// Returns the value of one state, read from the files that its sources name.
graph::Tensor readState(mlir::ModuleOp module, graph::StateOp state);

size_t count(mlir::ModuleOp module, llvm::StringRef op);

} // namespace llmc::test

#endif // LLMC_TEST_IMPORT_CHECK_H
