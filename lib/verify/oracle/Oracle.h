// llmc verify --oracle: the model's own file, run by others.
#ifndef LLMC_LIB_VERIFY_ORACLE_ORACLE_H
#define LLMC_LIB_VERIFY_ORACLE_ORACLE_H

#include "lib/verify/Verify.h"

namespace llmc::verify {

// Gives source tensors that are uses of one stored tensor the same values, so that the file
// can be run with them.
void giveUsesOneValue(mlir::ModuleOp imported, NamedTensors &weights);

// Whether `python` has the packages that the model's file needs, before anything is compiled.
support::Status checkPackages(const std::string &python, const CompileOptions &options);

// Runs compile.model with the weights and rows of the trial's first step in the Python
// `python`: an ONNX file by ONNX Runtime, and node by node in PyTorch, a config.json by
// transformers. Adds
//   oracle:outputs    of the imported graph (of an inference: of all ranks), and
//   oracle:reading    of the reading in PyTorch, beside ONNX Runtime's
//   oracle:loss, oracle:gradients   of `ranks`, all ranks in double
// Fails after a diagnostic where it cannot run: a package is missing, an op is unknown.
mlir::LogicalResult checkOracle(const std::string &python, const Reference &reference,
                                const Outcome &ranks, Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_ORACLE_ORACLE_H
