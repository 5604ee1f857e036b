// IR that `llmc compile --compile-to` wrote, as something to verify.
#ifndef LLMC_LIB_VERIFY_DUMP_H
#define LLMC_LIB_VERIFY_DUMP_H

#include "lib/pipeline/Options.h"
#include "lib/pipeline/Phases.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace llmc::verify {

struct Dump {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Phase phase = Phase::Raise;
  CompileOptions options; // of the run that wrote it; its model is the original
};

bool isDump(const std::string &path);

// Reads a dump and finds by what it holds at which border it was written. Fails
// after diagnostics, one of which names the border if the text tells it.
mlir::FailureOr<Dump> readDump(mlir::MLIRContext &context, const std::string &path);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_DUMP_H
