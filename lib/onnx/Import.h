// Reads an ONNX file into the `graph` dialect. Tested by test/import, test/conformance (each op)
// and test/fuzz/Onnx.cpp.
#ifndef LLMC_LIB_ONNX_IMPORT_H
#define LLMC_LIB_ONNX_IMPORT_H

#include "lib/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// Builds the module that lib/pipeline/Borders.md describes under "after import": sources, states
// and @forward with every dimension bound. Folds everything that depends on shapes and constants
// only; weights stay on disk, the module records their files and offsets. Returns null after one
// error that names file, nodes, rule and fix; emits a remark for each note to the user.
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
