// Compares the model with its own file run by other software (`llmc verify --oracle`). Tested by
// test/verify/OracleTest.cpp.
#ifndef LLMC_LIB_VERIFY_ORACLE_ORACLE_H
#define LLMC_LIB_VERIFY_ORACLE_ORACLE_H

#include "lib/verify/reference/Reference.h"
#include "lib/verify/subject/Report.h"

namespace llmc::verify {

// Checks that `python` has the packages that the model's file needs, before anything is compiled.
// Fails with the script's message.
support::Status checkPackages(const std::string &python, const CompileOptions &options);

// Runs compile.model with the weights and rows of the trial's first step in the Python `python`:
// an ONNX file by ONNX Runtime, and node by node in PyTorch, a config.json by transformers. Adds
//   oracle:outputs    of the imported graph (of an inference: of all ranks), and
//   oracle:reading    of the reading in PyTorch, against ONNX Runtime's outputs
//   oracle:loss, oracle:gradients   of `ranks`, all ranks in double
// Appends the script's notes to report.relation. Fails after a diagnostic if it cannot run: a
// package is missing, an op is unknown.
mlir::LogicalResult checkOracle(const std::string &python, const Reference &reference,
                                const Outcome &ranks, Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_ORACLE_ORACLE_H
