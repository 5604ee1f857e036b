// Makes what runs a step or an evaluation again whose rows found no room at the ranks of their experts. Tests:
// test/numerics/experts.py.
#ifndef LLMC_RUNTIME_TRAIN_RETRY_H
#define LLMC_RUNTIME_TRAIN_RETRY_H

#include "runtime/session/Session.h"

namespace llmc::runtime {

// Holds the executor of the program's plan for retries (lib/planfile/Retry.h), once it was needed.
class Retry {
public:
  // Borrows all three; `first` runs the steps.
  Retry(const Executor &first, const RunContext &context, const Options &options)
      : first_(first), context_(context), options_(options) {}

  // Returns whether the program has such a plan. Interleavings run the first one alone.
  bool exists() const { return context_.retry && !options_.interleaving; }
  // Returns the executor. Fails if what it needs beyond the arenas that are there does not fit the memory;
  // the error names the budget that needs no retry.
  support::Result<Executor *> executor();
  // Returns false if a retry failed while it changed weights and moments.
  bool statesConsistent() const { return !executor_ || executor_->statesConsistent(); }

private:
  const Executor &first_;
  const RunContext &context_;
  const Options &options_;
  std::unique_ptr<Executor> executor_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_RETRY_H
