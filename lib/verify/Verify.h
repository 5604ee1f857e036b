// Declares the driver of `llmc verify`, which shows that a plan computes what its model does.
// test/numerics/verify.py runs it; the parts have tests in test/verify.
#ifndef LLMC_LIB_VERIFY_VERIFY_H
#define LLMC_LIB_VERIFY_VERIFY_H

#include "lib/pipeline/Options.h"
#include "lib/pipeline/Phases.h"
#include "lib/support/Progress.h"
#include "lib/verify/subject/Report.h"
#include "lib/verify/subject/Subject.h"
#include "lib/verify/interpret/UpdateEquations.h"
#include "mlir/IR/MLIRContext.h"

#include <optional>

namespace llmc::verify {

// Selects when a scaled-down model is verified in place of the plan (scaled/Twin.h): if the model
// does not fit here, always, never.
enum class TwinChoice { Auto, On, Off };

struct VerifyOptions {
  CompileOptions compile; // compile.model may be the dump of a phase boundary
  std::optional<Phase> after; // checks this phase boundary alone
  uint64_t seed = 1;
  TwinChoice twin = TwinChoice::Auto;
  StandIn standIn; // replaces compile.model, unless null
  bool shapes = true; // also runs each kernel alone, at its real sizes
  unsigned interleavings = 0; // number of runs in drawn orders
  std::string oracle; // Python that runs the model's own file (oracle/Oracle.h); empty: none
  support::Progress *progress = nullptr; // receives progress; may be null
};

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

// Compiles for one rank, draws the steps and interprets them in double. With `withPlan` it also
// runs the one-rank plan's first step with its kernels, on micro-batches that all differ.
// `standIn` is as in compileSubject(). With `oneValueAUse` all uses of one stored tensor start
// from the same values, as they do in the file. Fails after diagnostics.
mlir::FailureOr<Reference> makeReference(mlir::MLIRContext &context, const CompileOptions &options,
                                         uint64_t seed, bool withPlan = true,
                                         StandIn standIn = {},
                                         support::Progress *progress = nullptr,
                                         bool oneValueAUse = false);

// Adds static:NAME for every checker of lib/planfile/Check.h; only static:bounds if that fails.
void checkStatic(const planfile::ProgramT &program, Report &report);

// Adds fp64:BORDER:... for loss, gradients, norm and replicas of an outcome in double, or for the
// outputs of an inference, with the limit 1e-10. Returns whether all pass.
bool checkExact(const Outcome &got, const Reference &reference, const std::string &border,
                Report &report);
// Runs the plan with its kernels, stores the `outcome` and adds kernels:... with limits of three
// times the error of the one-rank plan, at least 2e-6 and at most 1e-4. Returns whether all pass.
bool checkKernels(const Subject &subject, const Reference &reference, Outcome &outcome,
                  Report &report);

// Runs every check that `options` select, on the plan or on its scaled-down model. Fails after
// diagnostics if the compiler refuses the model; failed checks are in the report.
mlir::FailureOr<Report> verifyModel(mlir::MLIRContext &context, const VerifyOptions &options);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_VERIFY_H
