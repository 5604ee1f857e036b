// Runs mutation testing of the checks: every small fault of a plan must be killed by a static
// checker or by numbers, or be proved equivalent. Tested by test/numerics/mutation.py.
#ifndef LLMC_LIB_VERIFY_MUTATION_MUTATION_H
#define LLMC_LIB_VERIFY_MUTATION_MUTATION_H

#include "lib/options/Options.h"
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

// Selects mutants and how they are run.
struct MutationOptions {
  // Bounds the mutants of each fault, taken evenly from the list; 0: all.
  uint64_t most = 0;
  // Disables a static checker (happens-before, ...), to test the mutation testing itself.
  std::string without;
  unsigned processes = 0; // child processes; 0: one a core
  support::Progress *progress = nullptr; // receives progress; may be null
};

// Mutates a plan that passes all static checkers; runs at most the first two steps of `trial`.
// Fails if the plan itself does not pass or cannot be run. Returns the object of `verify --json`:
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

// Formats that object as a table of what killed what.
std::string mutationText(const nlohmann::json &mutants);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_MUTATION_H
