// Reads a Hugging Face config.json into the `graph` dialect. Tested by test/import.
#ifndef LLMC_LIB_HUGGINGFACE_IMPORT_H
#define LLMC_LIB_HUGGINGFACE_IMPORT_H

#include "lib/pipeline/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// Builds the module of a model; `path` is a config.json or its folder. The module has the form
// that lib/pipeline/Borders.md states for "after import", already in the ops that raise would
// make. Weights are those of options.weights, else the safetensors beside the config, else none
// (each tensor is then drawn by the architecture's own rule). Returns null after one error;
// emits a remark for each field that is ignored.
mlir::OwningOpRef<mlir::ModuleOp> importConfig(mlir::MLIRContext &context,
                                               llvm::StringRef path,
                                               const CompileOptions &options);

} // namespace llmc

#endif // LLMC_LIB_HUGGINGFACE_IMPORT_H
