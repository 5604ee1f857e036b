// Compiles a model into a plan, phase by phase. Tests: test/passes/4-partition/RealModelTest.cpp,
// test/numerics/tool.py (phases, dumps).
#ifndef LLMC_LIB_PIPELINE_PIPELINE_H
#define LLMC_LIB_PIPELINE_PIPELINE_H

#include "lib/options/Options.h"
#include "lib/options/Phases.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc {

// Registers every dialect that a module may hold between import and schedule.
void registerDialects(mlir::DialectRegistry &registry);

// Returns the file that `model` stands for: of a folder its config.json, else its model.onnx, if
// there is one; else `model` itself.
std::string modelFile(const std::string &model);

// Reads options.model: an ONNX file, a config.json, a folder that holds one of them, or (as .mlir)
// a dump of an earlier run. Marks the module as an inference if options.infer is set. Returns null
// after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> readModel(mlir::MLIRContext &context,
                                            const CompileOptions &options);

// Runs the phases after `from` up to and including `to` on the module, after recording mesh and
// options in it. With a dump folder, writes dumpPath() after each phase. Fails after diagnostics;
// `failedIn` is then the phase that failed, unchanged if the options were invalid.
mlir::LogicalResult runPhases(mlir::ModuleOp module, const CompileOptions &options, Phase from,
                              Phase to, Phase *failedIn = nullptr);

// Decides for a module that phase 4 left what backward computes again, and finds its kernels: the passes of schedule that
// see layers folded. Fails after diagnostics.
mlir::LogicalResult findKernels(mlir::ModuleOp module, const CompileOptions &options);

// Returns whether a step of the model, which no phase after raise has seen yet, may have more rows than the ranks
// of its experts have room for: such a program carries a second plan, that of optionsForRetry().
bool mayLackRoom(mlir::ModuleOp module, const CompileOptions &options);
// Returns the choices for the second plan: room for all rows, and no limit of memory.
CompileOptions optionsForRetry(const CompileOptions &options);

// Returns FOLDER/model.N-PHASE.mlir.
std::string dumpPath(const std::string &folder, Phase phase);

// Returns whether `options` and the model's config ask for another function than the model's own: for dropout, a
// limit of the rows of experts, or their balance.
bool changesModel(mlir::ModuleOp module, const CompileOptions &options);
// Makes the raised model the function that `options` ask for.
mlir::LogicalResult changeModel(mlir::ModuleOp module, const CompileOptions &options);

} // namespace llmc

#endif // LLMC_LIB_PIPELINE_PIPELINE_H
