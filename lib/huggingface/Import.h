// Reads a Hugging Face config.json into the `graph` dialect. Tested by test/import.
#ifndef LLMC_LIB_HUGGINGFACE_IMPORT_H
#define LLMC_LIB_HUGGINGFACE_IMPORT_H

#include "lib/options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// Builds the module that docs/0-import.md describes from `path`, a config.json or its folder,
// already in the ops that raise aims at. Weights are those of options.weights, else the
// safetensors beside the config, else none (drawn by the architecture's own rule). Returns null
// after one diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> importConfig(mlir::MLIRContext &context,
                                               llvm::StringRef path,
                                               const CompileOptions &options);

} // namespace llmc

#endif // LLMC_LIB_HUGGINGFACE_IMPORT_H
