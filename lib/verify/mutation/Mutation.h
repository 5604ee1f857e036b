// Whether checks see what they must see: every small fault of a plan is killed by a
// static checker or by numbers, or shown to change nothing.
#ifndef LLMC_LIB_VERIFY_MUTATION_MUTATION_H
#define LLMC_LIB_VERIFY_MUTATION_MUTATION_H

#include "lib/pipeline/Options.h"
#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "lib/verify/steps/Training.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include "runtime/compute/Kernels.h"

#include <nlohmann/json.hpp>

#include <string>

namespace llmc::verify {

struct MutationOptions {
  // At most so many mutants of each fault, evenly from the list; 0: all.
  uint64_t most = 0;
  // For tests of this very thing: the static checker (happens-before, ...) that does not look.
  std::string without;
  unsigned processes = 0; // that share the work; 0: one a core
  support::Progress *progress = nullptr; // is told what is done
};

// Mutates a plan that passes all static checkers. Of `trial` the first two steps are
// run. The object of `verify --json`:
//   total, killed, killed_by {checker or "numbers", "deadlock", ...: n}, equivalent,
//   reasons [{reason, count}], survivors [{fault, stage, procedure, instruction,
//   change, origin}], listed (before `most`),
//   faults {fault: {total, killed_by {}, equivalent, survivors}},
//   numbers_only {drop|group|scale: {total, killed, by {}, missed []}}: with static
//   checkers off; mutants known to be equivalent are not counted.
support::Result<nlohmann::json> mutate(const planfile::ProgramT &program,
                                       const runtime::Kernels &kernels, const Trial &trial,
                                       const MutationOptions &options = {});

// Compiles a model, draws two steps from `seed` and mutates its plan. Fails after
// diagnostics.
mlir::FailureOr<nlohmann::json> mutateModel(mlir::MLIRContext &context,
                                            const CompileOptions &compile, uint64_t seed,
                                            const MutationOptions &options = {});

// The table of what killed what, for people.
std::string mutationText(const nlohmann::json &mutants);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_MUTATION_H
