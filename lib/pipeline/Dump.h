// IR that a run of the compiler left at a border, with the choices of that run.
#ifndef LLMC_LIB_PIPELINE_DUMP_H
#define LLMC_LIB_PIPELINE_DUMP_H

#include "lib/pipeline/Options.h"
#include "lib/pipeline/Phases.h"
#include "lib/support/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

struct Dump {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Phase phase = Phase::Raise;
  CompileOptions options; // of the run that wrote it; its model is the original
};

// Whether the file is IR at a border, and no model that is written as IR (nor any other file).
bool isDump(const std::string &path);

// Reads a dump. Where it stands it says itself; what it holds tells it of one that does
// not. Fails after diagnostics, one of which names the border if the text tells it.
mlir::FailureOr<Dump> readDump(mlir::MLIRContext &context, const std::string &path);

// Checks that the module is what `phase` leaves behind it, as the last pass of each phase
// does. Fails after diagnostics.
mlir::LogicalResult verifyBorder(mlir::ModuleOp module, Phase phase);

// Writes the module as it is after `phase`, whole or not at all.
support::Status writeDump(mlir::ModuleOp module, Phase phase, const std::string &path);

// What was asked for by the flags in `given` and is not what the dump was written with:
// a line each, ready for the user.
std::vector<std::string> contradictions(const std::vector<std::string> &given,
                                        const CompileOptions &asked, const CompileOptions &written);

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_DUMP_H
