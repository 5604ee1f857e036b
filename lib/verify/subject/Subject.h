// What is verified: one compilation with all its borders.
#ifndef LLMC_LIB_VERIFY_SUBJECT_SUBJECT_H
#define LLMC_LIB_VERIFY_SUBJECT_SUBJECT_H

#include "lib/pipeline/Options.h"
#include "lib/pipeline/Phases.h"
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

struct Subject {
  CompileOptions options;
  // The module at each border that was reached; Emit is not kept.
  std::map<Phase, mlir::OwningOpRef<mlir::ModuleOp>> borders;
  // After Emit: the launches with their kernels' names, the plan of them, and its kernels, ready
  // to run.
  mlir::OwningOpRef<mlir::ModuleOp> emitted;
  std::unique_ptr<planfile::ProgramT> program;
  std::optional<runtime::Kernels> kernels;

  // The module at a border; null if it was not reached.
  mlir::ModuleOp at(Phase phase) const;
};

// A module that stands for options.model, at one of its first borders.
struct StandIn {
  StandIn(mlir::ModuleOp module = {}, Phase border = Phase::Raise)
      : module(module), border(border) {}
  explicit operator bool() const { return module != nullptr; }
  mlir::ModuleOp module;
  Phase border;
};

// Compiles options.model up to a phase, or what stands for it. Fails with diagnostics.
mlir::FailureOr<Subject> compileSubject(mlir::MLIRContext &context, const CompileOptions &options,
                                        Phase upTo = Phase::Emit, StandIn standIn = {});

// The same from a module that stands at border `from`. If a phase refuses,
// `failedIn` is that phase, and the borders before it are in `subject`.
mlir::LogicalResult compileFrom(mlir::ModuleOp module, Phase from, Phase upTo, Subject &subject,
                                Phase *failedIn = nullptr);

// The same step on one rank: the same rows in the same micro-batches.
CompileOptions oneRank(const CompileOptions &options);

// Weights, rows and scalars for `steps` steps of a one-rank plan of the model (its
// inputs are the global ones). Tokens are random, about 30 % of the labels are
// ignored, more in later rows; inputs of an inference as drawInput() in Draw.cpp says. A source tensor whose elements are all equal (a
// bias of zeros) would hide errors, so that noise is added to it. A step of training has at most
// `microBatches` different ones, a divisor of their number, which are repeated.
support::Result<Trial> drawTrial(const Subject &oneRank, uint64_t seed, unsigned steps,
                                 int64_t microBatches = std::numeric_limits<int64_t>::max());
// One step of that, numbered from 0.
StepData drawStep(const Subject &oneRank, uint64_t seed, unsigned step,
                  int64_t microBatches = std::numeric_limits<int64_t>::max());

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_SUBJECT_H
