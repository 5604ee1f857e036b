// Chooses which values to keep and which to compute again. Knows no IR, so that it can be compared
// with every other choice. Test: test/passes/5-schedule/KeptSetTest.cpp.
#ifndef LLMC_PASSES_SCHEDULE_RECOMPUTE_KEPTSET_H
#define LLMC_PASSES_SCHEDULE_RECOMPUTE_KEPTSET_H

#include <cstdint>
#include <optional>
#include <vector>

namespace llmc {

// Describes a computation of which some values are needed once more, later.
struct KeptSetProblem {
  struct Value {
    int64_t bytes = 0; // that it takes to keep it
    bool needed = false;
  };
  struct Op {
    double price = 0; // of running it again, in FLOPs
    bool mayRedo = true;
    std::vector<unsigned> operands, results; // numbers of values
  };
  std::vector<Value> values; // those that no op makes can only be kept
  std::vector<Op> ops;       // each after those that make its operands
};

// Represents a choice.
struct KeptSet {
  std::vector<bool> kept; // of each value
  int64_t bytes = 0;      // of all that is kept
  double price = 0;       // of all ops that run again
};

// Adds up what the choice takes. Returns nothing if a needed value is neither kept nor can be
// computed from what is.
std::optional<KeptSet> priced(const KeptSetProblem &problem, std::vector<bool> kept);

// Returns the choice that keeps the fewest bytes; of several the one from which the fewest ops lie
// before what is needed. Prices do not count.
KeptSet keepFewestBytes(const KeptSetProblem &problem);

// Returns a choice that keeps at most `bytes` and whose price is at most 1 % above the lowest one
// (as long as the search stays within its bound of some thousand cuts, beyond which it returns the
// best that it found). Returns nothing if no choice keeps so few bytes.
std::optional<KeptSet> keepCheapest(const KeptSetProblem &problem, int64_t bytes);

} // namespace llmc

#endif // LLMC_PASSES_SCHEDULE_RECOMPUTE_KEPTSET_H
