// Decides on mutants of a plan in child processes, since a mutant may crash or hang its process.
// Tested by test/verify/MutantsTest.cpp.
#ifndef LLMC_LIB_VERIFY_MUTATION_PLANMUTATIONRUNNER_H
#define LLMC_LIB_VERIFY_MUTATION_PLANMUTATIONRUNNER_H

#include "lib/verify/mutation/Equivalence.h"
#include "lib/verify/mutation/MutantRun.h"
#include "lib/verify/mutation/Mutants.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::verify {

// Holds what became of one mutant.
struct Decision {
  // Identifies the overwriter: a checker, "numbers", "deadlock", "refused", "crash", "hang",
  // "interleavings"; or is empty.
  std::string overwriter;
  std::string reason; // why it is equivalent; without overwriter and reason it survived
  // Holds what a run in order shows with the static checkers off: a value as in `overwriter`, or
  // "same"; empty if it was not run.
  std::string numbers;
};

// Runs static checkers, the equivalence proof and the plan itself on mutants.
class PlanMutationRunner {
public:
  // Takes runners, each with the difference that counts in it: the usual step first, then those
  // for mutants that pass it. Leaves out the static checker named `without`.
  PlanMutationRunner(const planfile::ProgramT &program,
              std::vector<std::pair<const MutantRunner *, double>> runners,
              std::string without = "")
      : program(program), runners(std::move(runners)), without(std::move(without)),
        equivalence(program),
        drawsOrders(this->runners[0].first->passesInDrawnOrders(program, this->runners[0].second)) {}

  // Returns one decision a mutant; calls `decided` now and then with the number decided. Returns
  // an empty list if no shared memory can be had.
  std::vector<Decision> decide(const std::vector<Mutant> &mutants, unsigned processes,
                               const std::function<void(uint64_t)> &decided) const;

private:
  struct Record; // state of one mutant, in memory that the processes share
  void serve(const std::vector<Mutant> &mutants, Record *records, size_t first,
             size_t stride) const;
  void decideOne(const Mutant &mutant, Record &record) const;
  std::string runAll(const planfile::ProgramT &mutant) const;
  bool commutes(const Mutant &mutant) const;

  const planfile::ProgramT &program;
  std::vector<std::pair<const MutantRunner *, double>> runners;
  std::string without;
  Equivalence equivalence;
  // Tells whether the plan itself passes in drawn orders: a step whose rows lack room has other numbers in each.
  bool drawsOrders;
};

// Returns the first static checker that finds something in the plan, or "". Sets live_bytes to
// what the plan needs, as a compiler with the fault would.
std::string staticKiller(planfile::ProgramT &program, std::string_view without = {});
// Returns the names of the static checkers, in the order in which they run.
std::vector<std::string_view> staticCheckers();

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_PLANMUTATIONRUNNER_H
