// Declares what the tests of the importers share.
#ifndef LLMC_TEST_IMPORT_CHECK_H
#define LLMC_TEST_IMPORT_CHECK_H

#include "dialects/graph/Evaluate.h"
#include "dialects/graph/Graph.h"
#include "lib/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <string>
#include <vector>

namespace llmc::test {

// Represents a test, a named case or one drawn case of a list, for as long as it lives. A nested
// test counts by itself; one that neither checks anything nor contains another has failed.
class Case {
public:
  explicit Case(std::string name);
  ~Case();
  Case(const Case &) = delete;

private:
  friend bool check(bool holds, const std::string &what);
  std::string name_;
  Case *outer_;
  int checks_ = 0, failures_ = 0, inner_ = 0;
};

// Records one comparison of the innermost test, prints it if it failed, and returns `holds`.
bool check(bool holds, const std::string &what);

std::string dataPath(const std::string &name); // a path under test/data

CompileOptions optionsFor(int64_t batch, int64_t sequence);

// Imports a file by its extension. Returns null with the error in `message` if it is refused.
mlir::OwningOpRef<mlir::ModuleOp> import(mlir::MLIRContext &context, const std::string &path,
                                         const CompileOptions &options, std::string &message);

graph::Tensor readNpy(const std::string &path);

// Returns the values of all parameters of @forward, read from the files that the sources name,
// through the states' views; in argument order after `ids`.
std::vector<graph::Tensor> arguments(mlir::ModuleOp module, const graph::Tensor &ids);

// Returns the value of one state, read from the file that its source names.
graph::Tensor readState(mlir::ModuleOp module, graph::StateOp state);

size_t count(mlir::ModuleOp module, llvm::StringRef op);

void testModels();
// Imports any file and compares the logits of the first row.
void compareModel(const std::string &file, const std::string &ids, const std::string &logits);
// Imports for one run with `dims` and compares all outputs.
void compareInference(const std::string &file, const std::string &folder,
                      const std::map<std::string, int64_t> &dims, double limit);
void testFolding();
void testSmallGraphs();
void testExports();
void testLearned();
void testPrograms();
void testFunctions();
void testInference();
void testStoredTensors();
void testAnnotations();
void testCheckpoints();
void testArchitectures();
void testRefusals();
// Changes random bytes of good files: each must be accepted or refused without a crash.
void testMutations(int draws, uint64_t seed);

} // namespace llmc::test

#endif // LLMC_TEST_IMPORT_CHECK_H
