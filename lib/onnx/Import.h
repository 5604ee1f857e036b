// Reads an ONNX file into the `graph` dialect. Tested by test/import, test/conformance (each op)
// and test/fuzz/Onnx.cpp.
#ifndef LLMC_LIB_ONNX_IMPORT_H
#define LLMC_LIB_ONNX_IMPORT_H

#include "lib/options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// Returns a module as docs/0-import.md states it: sources, states
// and @forward with every dimension bound. Everything that depends on shapes and
// constants only is folded away; weights stay on disk, only their places are
// recorded. Null after one diagnostic that names file, nodes, rule and fix.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context,
                                             llvm::StringRef path,
                                             const CompileOptions &options);

namespace onnximport {
// Returns whether the importer knows an op; `op` is Node::qualifiedOp ("com.microsoft::Gelu"). A
// node of a known op may still be refused, with a reason.
bool isKnownOp(llvm::StringRef op);
} // namespace onnximport

} // namespace llmc

#endif // LLMC_LIB_ONNX_IMPORT_H
