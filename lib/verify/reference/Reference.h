// Computes what every check compares with: the model on one rank. Tested by
// test/verify/steps/RepeatedStepsTest.cpp.
#ifndef LLMC_LIB_VERIFY_REFERENCE_REFERENCE_H
#define LLMC_LIB_VERIFY_REFERENCE_REFERENCE_H

#include "lib/support/Progress.h"
#include "lib/verify/interpret/UpdateEquations.h"
#include "lib/verify/subject/Subject.h"
#include "mlir/IR/MLIRContext.h"

#include <optional>

namespace llmc::verify {

// Holds steps and what interpreting them in double leaves.
struct Steps {
  Trial trial;
  Outcome exact;
};

// Holds the expected values of all checks: the model on one rank.
struct Reference {
  Subject one;      // the model compiled for one rank
  Trial trial;      // kSteps steps of at most kDifferent micro-batches; inference: kRuns runs
  Outcome exact;    // outcome of `trial` in double
  // Holds the same trial with a first step whose micro-batches all differ, if a step has more
  // than kDifferent: a plan keeps each in its slot and may confuse them, whereas an interpreter
  // that runs them one at a time cannot.
  std::optional<Steps> distinct;
  UpdateErrors update; // error of each step of `exact` against the optimizer's equations
  TensorError gradients; // error of the one-rank plan against `exact`
  double loss = 0;       // relative error of the one-rank plan's first loss
  double outputs = 0;    // relative error of its gradient norm and token count
  double results = 0, elements = 0; // inference: errors of its outputs in L2 and of single elements
};
// Returns what a plan with kernels runs and the outcome expected of it: `distinct`, if present.
const Trial &trialOfPlan(const Reference &reference);
const Outcome &exactOfPlan(const Reference &reference);
inline constexpr unsigned kSteps = 5, kRuns = 2;
inline constexpr int64_t kDifferent = 4;

// Counts the micro-batches that the interpreters run, for progress.
uint64_t microBatchesOf(const CompileOptions &options, const Trial &trial);

// Compiles for one rank, draws the steps and interprets them in double. With `withPlan` it also
// runs the one-rank plan's first step with its kernels, on micro-batches that all differ.
// `modelReplacement` is as in compileSubject(). With `unifyShared` all uses of one stored tensor
// start from the same values, as they do in the file. Fails after diagnostics.
mlir::FailureOr<Reference> makeReference(mlir::MLIRContext &context, const CompileOptions &options,
                                         uint64_t seed, bool withPlan = true,
                                         ModelReplacement modelReplacement = {},
                                         support::Progress *progress = nullptr,
                                         bool unifyShared = false);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_REFERENCE_REFERENCE_H
