// llmc verify: shows that a plan equals its model.
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

// Whether a shrunk twin stands for the plan (Twin.h): where it does not fit, always, never.
enum class TwinChoice { Auto, On, Off };

struct VerifyOptions {
  CompileOptions compile; // compile.model may be a dump of an earlier run
  std::optional<Phase> after; // this border alone
  uint64_t seed = 1;
  TwinChoice twin = TwinChoice::Auto;
  StandIn standIn; // if there, in place of compile.model
  bool shapes = true; // run each kernel alone at its sizes
  unsigned interleavings = 0; // runs in drawn orders
  std::string oracle; // a Python that runs the model's own file (Oracle.h); empty: none
  support::Progress *progress = nullptr; // is told what is done
};

// Some steps, and what they leave in double.
struct Steps {
  Trial trial;
  Outcome exact;
};

// Everything that the checks compare with: the model on one rank.
struct Reference {
  Subject one;      // one-rank compilation
  Trial trial;      // five steps of at most kDifferent micro-batches; two runs of an inference
  Outcome exact;    // those steps in double
  // Where a step has more micro-batches: the same, but that those of the first step all differ. A
  // plan keeps each in its slot and may mix them up; what runs one at a time cannot.
  std::optional<Steps> distinct;
  UpdateErrors update; // of `exact`, step by step, against the optimizer's equations
  TensorError gradients; // of the one-rank plan against `exact`
  double loss = 0;       // error of the one-rank plan's first loss
  double outputs = 0;    // of its norm and token count
  double results = 0, elements = 0; // of an inference: of its outputs, of their elements
};
// What plans with kernels run, and what it leaves in double.
const Trial &trialOfPlan(const Reference &reference);
const Outcome &exactOfPlan(const Reference &reference);
inline constexpr unsigned kSteps = 5, kRuns = 2;
inline constexpr int64_t kDifferent = 4;

// Compiles for one rank, draws the steps and runs them in double and, for
// `withPlan`, by kernels and with the steps that a plan runs. `standIn` as in compileSubject(). With `oneValueAUse` all uses of a
// stored tensor begin with one value, as in the file. Null after diagnostics.
mlir::FailureOr<Reference> makeReference(mlir::MLIRContext &context, const CompileOptions &options,
                                         uint64_t seed, bool withPlan = true,
                                         StandIn standIn = {},
                                         support::Progress *progress = nullptr,
                                         bool oneValueAUse = false);

// Every static checker, one line each.
void checkStatic(const planfile::ProgramT &program, Report &report);

// Loss, gradients, norm and replicas of an outcome in double, or the outputs of an
// inference: rule (i).
// `border` names the checks: fp64:BORDER:loss, ...
bool checkExact(const Outcome &got, const Reference &reference, const std::string &border,
                Report &report);
// The plan's outcome with its real kernels: rule (ii).
bool checkKernels(const Subject &subject, const Reference &reference, Outcome &outcome,
                  Report &report);

// All of it. Fails after diagnostics if the compiler refuses.
mlir::FailureOr<Report> verifyModel(mlir::MLIRContext &context, const VerifyOptions &options);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_VERIFY_H
