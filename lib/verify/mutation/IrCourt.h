// Decides on faults of the IR as the default `verify` would: each is made in every compilation
// that a verification runs, as by a faulty pass.
#ifndef LLMC_LIB_VERIFY_MUTATION_IRCOURT_H
#define LLMC_LIB_VERIFY_MUTATION_IRCOURT_H

#include "lib/verify/mutation/IrMutants.h"
#include "lib/verify/Verify.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmc::verify {

struct IrDecision {
  std::string killer; // a check ("fp64:train:gradients"), "refused", "crash", "hang"; or empty
  std::string reason; // why it is equivalent; or empty
  // The largest relative change of a loss, a gradient or an update, of the plan itself with
  // its kernels; of those that pass alone. Below kIrThreshold it need not be found.
  double change = 0;
  bool below() const;
};
inline constexpr double kIrThreshold = 1e-3;

// A fault that any change of a module may make: after phase `phase`, of each compilation.
// Returns whether it was made.
using IrFault = std::function<bool(Phase, mlir::ModuleOp)>;

class IrCourt {
public:
  // Compiles the model once as it is. Null after diagnostics.
  static mlir::FailureOr<std::unique_ptr<IrCourt>> create(mlir::MLIRContext &context,
                                                          const VerifyOptions &options);

  // All mutants of the borders raise, train, shard and partition of the sound compilation.
  std::vector<IrMutant> list() const;

  IrDecision decide(const IrMutant &mutant) const;
  // With checks of `verify` that need no plan first; what they let pass verifyModel() decides.
  IrDecision decide(Phase phase, const IrFault &fault) const;

  // Leaves out what a plan is needed for: what passes may yet be killed.
  bool quick = false;

  // The same of many, in child processes, `seconds` each. The context must not have threads.
  std::vector<IrDecision> decide(const std::vector<IrMutant> &mutants, unsigned processes,
                                 unsigned seconds, const std::function<void(size_t)> &ended) const;

private:
  IrCourt(mlir::MLIRContext &context, const VerifyOptions &options)
      : context(context), options(options) {}
  std::string quickKiller(Phase phase, const IrFault &fault) const;
  std::string killerOfVerify(const CompileOptions &faulty) const;
  double changeOf(const CompileOptions &faulty) const;

  mlir::MLIRContext &context;
  VerifyOptions options;
  Subject sound;   // on all ranks
  Reference reference; // of the sound model
  Trial first;         // its first step
  Outcome plan;    // five steps of the sound plan
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_IRCOURT_H
