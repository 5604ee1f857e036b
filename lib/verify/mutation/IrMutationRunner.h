// Decides whether the default `verify` finds faults of the IR: makes each fault in every
// compilation that a verification runs, as a faulty pass would. Tested by test/verify/catalogue
// and test/verify/ir.
#ifndef LLMC_LIB_VERIFY_MUTATION_IRMUTATIONRUNNER_H
#define LLMC_LIB_VERIFY_MUTATION_IRMUTATIONRUNNER_H

#include "lib/verify/mutation/IrMutants.h"
#include "lib/verify/Verify.h"
#include "lib/verify/reference/Reference.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmc::verify {

// Holds what became of one fault: killed, equivalent or survived.
struct IrDecision {
  std::string overwriter; // a check ("fp64:train:gradients"), "refused", "crash", "hang"; or empty
  std::string reason; // why it is equivalent; or empty
  // Holds the largest relative change of a loss, a gradient or an update that the fault causes in
  // the plan with its kernels; set for survivors only. At most kIrThreshold it need not be found.
  double change = 0;
  // Returns whether it survived with a change that need not be found.
  bool below() const;
};
inline constexpr double kIrThreshold = 1e-3;

// Changes the module after phase `phase` of each compilation, in any way. Returns whether it
// changed something.
using IrFault = std::function<bool(Phase, mlir::ModuleOp)>;

// Runs the checks on mutants of one model's IR.
class IrMutationRunner {
public:
  // Compiles the sound model and runs its plan. Fails after diagnostics.
  static mlir::FailureOr<std::unique_ptr<IrMutationRunner>> create(mlir::MLIRContext &context,
                                                          const VerifyOptions &options);

  // Lists all mutants of the sound compilation at the phase boundaries raise, train, shard and
  // partition.
  std::vector<IrMutant> list() const;

  // Decides one mutant, unless it is equivalent.
  IrDecision decide(const IrMutant &mutant) const;
  // Decides one fault: first by the checks of `verify` that need no plan, then by verifyModel().
  IrDecision decide(Phase phase, const IrFault &fault) const;

  // Selects whether checks that need a plan are left out; a survivor might then still be killed.
  bool quick = false;

  // Decides many mutants in child processes, `seconds` each. The context must not have threads.
  std::vector<IrDecision> decide(const std::vector<IrMutant> &mutants, unsigned processes,
                                 unsigned seconds, const std::function<void(size_t)> &ended) const;

private:
  IrMutationRunner(mlir::MLIRContext &context, const VerifyOptions &options)
      : context(context), options(options) {}
  std::string quickKiller(Phase phase, const IrFault &fault) const;
  std::string killerOfVerify(const CompileOptions &faulty) const;
  double changeOf(const CompileOptions &faulty) const;

  mlir::MLIRContext &context;
  VerifyOptions options;
  Subject sound;   // the sound compilation for all ranks
  Reference reference; // the sound model on one rank
  Trial first;         // the first step of reference.trial
  Outcome plan;    // five steps of the sound plan, with kernels
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IRMUTATIONRUNNER_H
