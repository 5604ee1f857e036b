// Holds one compilation with the modules of all its phase boundaries. Tested by
// test/verify/steps/RepeatedStepsTest.cpp (drawStep, drawTrial) and
// test/passes/5-schedule/RunTest.cpp (compileFrom).
#ifndef LLMC_LIB_VERIFY_SUBJECT_SUBJECT_H
#define LLMC_LIB_VERIFY_SUBJECT_SUBJECT_H

#include "lib/options/Options.h"
#include "lib/options/Phases.h"
#include "lib/planfile/Program.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/compute/Kernels.h"

#include <limits>
#include <map>
#include <memory>
#include <optional>

namespace llmc::verify {

// Owns what a verification compares: modules, plan and loaded kernels of one compilation.
struct Subject {
  CompileOptions options;
  // Holds the module after each phase that ran, except Emit.
  std::map<Phase, mlir::OwningOpRef<mlir::ModuleOp>> borders;
  // Owns, after Emit, the module whose launches name their kernels; `program` is the plan written
  // from it, `kernels` are that plan's, loaded.
  mlir::OwningOpRef<mlir::ModuleOp> emitted;
  std::unique_ptr<planfile::ProgramT> program;
  std::optional<runtime::Kernels> kernels;

  // Returns the module after `phase`, or null if that phase did not run.
  mlir::ModuleOp at(Phase phase) const;
};

// Refers to a module that replaces options.model, and the phase boundary at which it is.
struct ModelReplacement {
  ModelReplacement(mlir::ModuleOp module = {}, Phase border = Phase::Raise)
      : module(module), border(border) {}
  explicit operator bool() const { return module != nullptr; }
  mlir::ModuleOp module;
  Phase border;
};

// Compiles options.model, or `modelReplacement` in its place, up to a phase: of a mixture the plan that
// has room for all rows, by which a step runs again that lacks room (reference/RoomChecks.h checks the
// other). Fails after diagnostics.
mlir::FailureOr<Subject> compileSubject(mlir::MLIRContext &context, const CompileOptions &options,
                                        Phase upTo = Phase::Emit,
                                        ModelReplacement modelReplacement = {});

// Continues a compilation from a copy of `module`, which is after phase `from`. If a phase fails,
// `failedIn` is that phase and `subject` has the modules before it. Fails after diagnostics.
mlir::LogicalResult compileFrom(mlir::ModuleOp module, Phase from, Phase upTo, Subject &subject,
                                Phase *failedIn = nullptr);

// Returns options for the same step on one rank: the same rows in the same micro-batches.
CompileOptions oneRank(const CompileOptions &options);

// Draws weights, rows and scalars for `steps` steps of a one-rank plan of the model (whose inputs
// are the global ones). Tokens are random and about 30 % of the labels are ignored, more in later
// rows; drawInput() in Draw.cpp draws the inputs of an inference. Noise is added to a source
// tensor whose elements are all equal (a bias of zeros), since it would hide errors. A step of
// training has at most `microBatches` different micro-batches, a divisor of their number, and
// repeats them.
support::Result<Trial> drawTrial(const Subject &oneRank, uint64_t seed, unsigned steps,
                                 int64_t microBatches = std::numeric_limits<int64_t>::max());
// Draws one such step of training, numbered from 0.
StepData drawStep(const Subject &oneRank, uint64_t seed, unsigned step,
                  int64_t microBatches = std::numeric_limits<int64_t>::max());

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_SUBJECT_H
