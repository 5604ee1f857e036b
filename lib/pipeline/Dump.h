// Reads and writes dumps: the IR that a run of the compiler left at a phase boundary, with the
// options of that run. docs/ has the form of the IR at each boundary. Tests: test/numerics/tool.py
// (phases), test/numerics/refusals.py (dump_says_itself, dump_contradicted, foreign_ir).
#ifndef LLMC_LIB_PIPELINE_DUMP_H
#define LLMC_LIB_PIPELINE_DUMP_H

#include "lib/options/Options.h"
#include "lib/options/Phases.h"
#include "lib/support/Error.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// Holds a dump that was read.
struct Dump {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Phase phase = Phase::Raise;
  CompileOptions options; // of the run that wrote it; its model is the original
};

// Returns whether the file is a dump, and no model that is written as IR (nor any other file): an
// .mlir file that has plan.options or lacks graph.mode. True also for an .mlir file that cannot be
// read, which readDump() reports.
bool isDump(const std::string &path);

// Reads a dump. Its phase is that of plan.options; without one, the text shows it. Fails after
// diagnostics, one of which names the boundary if the text shows it.
mlir::FailureOr<Dump> readDump(mlir::MLIRContext &context, const std::string &path);

// Checks that the module is what `phase` leaves behind it, by the last pass of the phase; nothing
// for import and emit. Fails after diagnostics.
mlir::LogicalResult verifyPhaseBoundary(mlir::ModuleOp module, Phase phase);

// Writes the module as it is after `phase`, whole or not at all. The module is the same afterwards.
support::Status writeDump(mlir::ModuleOp module, Phase phase, const std::string &path);

// Returns one line for the user for each flag in `given` whose value in `asked` is not the one that
// the dump was written with; empty if all agree.
std::vector<std::string> conflictingFlags(const std::vector<std::string> &given,
                                        const CompileOptions &asked, const CompileOptions &written);

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_DUMP_H
