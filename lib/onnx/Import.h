// Reads an ONNX file into the `graph` dialect.
#ifndef LLMC_LIB_ONNX_IMPORT_H
#define LLMC_LIB_ONNX_IMPORT_H

#include "lib/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// A module as lib/pipeline/Borders.md states it "after import": sources, states
// and @forward with every dimension bound. Everything that depends on shapes and
// constants only is folded away; weights stay on disk, only their places are
// recorded. Null after one diagnostic that names file, nodes, rule and fix.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context,
                                             llvm::StringRef path,
                                             const CompileOptions &options);

namespace onnximport {
// Whether the importer knows an op at all; `op` is its name, with its domain in front of ::
// unless that is ONNX's own. What it knows it may still refuse, with a reason.
bool isKnownOp(llvm::StringRef op);
} // namespace onnximport

} // namespace llmc

#endif // LLMC_LIB_ONNX_IMPORT_H
