// Decides on mutants, in child processes: a mutant may crash or hang its process.
#ifndef LLMC_LIB_VERIFY_MUTATION_MUTANTCOURT_H
#define LLMC_LIB_VERIFY_MUTATION_MUTANTCOURT_H

#include "lib/verify/mutation/Equivalence.h"
#include "lib/verify/mutation/MutantRun.h"
#include "lib/verify/mutation/Mutants.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::verify {

struct Decision {
  // Checker, "numbers", "deadlock", "refused", "crash", "hang", "interleavings"; or empty.
  std::string killer;
  std::string reason; // why it is equivalent; or empty: then a survivor if no killer
  // What running it in order says with the static checkers off: as killer, or "same"; empty
  // if it was not run.
  std::string numbers;
};

class MutantCourt {
public:
  // `runners`: the usual step first, then those for mutants that pass it; with the
  // difference that counts in each. Without the static checker named `without`, if any.
  MutantCourt(const planfile::ProgramT &program,
              std::vector<std::pair<const MutantRunner *, double>> runners,
              std::string without = "")
      : program(program), runners(std::move(runners)), without(std::move(without)),
        equivalence(program) {}

  // Calls `decided` with how many are, now and then.
  std::vector<Decision> decide(const std::vector<Mutant> &mutants, unsigned processes,
                               const std::function<void(uint64_t)> &decided) const;

private:
  struct Record; // of one mutant, in memory that the processes share
  void serve(const std::vector<Mutant> &mutants, Record *records, size_t first,
             size_t stride) const;
  void decideOne(const Mutant &mutant, Record &record) const;
  std::string runAll(const planfile::ProgramT &mutant) const;
  bool commutes(const Mutant &mutant) const;

  const planfile::ProgramT &program;
  std::vector<std::pair<const MutantRunner *, double>> runners;
  std::string without;
  Equivalence equivalence;
};

// The first static checker that finds something in the plan, or empty. live_bytes
// is set to what the plan needs, as by a compiler that made the fault.
std::string staticKiller(planfile::ProgramT &program, std::string_view without = {});
// Their names, in the order in which they look.
std::vector<std::string_view> staticCheckers();

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_MUTANTCOURT_H
