// From a model to a plan, phase by phase.
#ifndef LLMC_LIB_PIPELINE_PIPELINE_H
#define LLMC_LIB_PIPELINE_PIPELINE_H

#include "lib/pipeline/Options.h"
#include "lib/pipeline/Phases.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// Every dialect that a module may hold between import and schedule.
void registerDialects(mlir::DialectRegistry &registry);
// Every pass of phases 1 to 6, under its flag.
void registerPasses();

// The file that `model` stands for: itself, or of a folder its config.json or model.onnx.
std::string modelFile(const std::string &model);

// Reads options.model: an ONNX file, a config.json, a folder that holds one of
// them, or (as .mlir) a dump of an earlier run. Null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> readModel(mlir::MLIRContext &context,
                                            const CompileOptions &options);

// Runs the phases after `from` up to and including `to` on the module. With a
// dump folder, writes dumpPath() after each. If a phase refuses, `failedIn` is that phase.
mlir::LogicalResult runPhases(mlir::ModuleOp module, const CompileOptions &options, Phase from,
                              Phase to, Phase *failedIn = nullptr);

// FOLDER/model.N-PHASE.mlir.
std::string dumpPath(const std::string &folder, Phase phase);

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_PIPELINE_H
