// The loss on data that is not trained on, with the weights as they are.
#ifndef LLMC_RUNTIME_TRAIN_EVALUATION_H
#define LLMC_RUNTIME_TRAIN_EVALUATION_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "runtime/data/Data.h"
#include "runtime/cpu/Executor.h"
#include "runtime/session/Options.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace llmc::runtime {

class Evaluation {
public:
  // Opens --eval-data and begins to check its tokens.
  static support::Result<Evaluation> open(const planfile::ProgramT &program,
                                          const Options &options, support::Progress &progress);

  // Mean over the tokens of its rows, in order, the first of each global batch's
  // multiple. Changes no state (Executor::evaluate). None: `stop` was set meanwhile.
  support::Result<std::optional<double>> run(Executor &executor, support::Progress &progress,
                                             const std::atomic<bool> *stop);

  // Is it due after `done` of `steps` steps?
  bool due(uint64_t done, uint64_t steps) const {
    return done == steps || (every_ > 0 && done > 0 && done % every_ == 0);
  }
  uint64_t batches() const { return batches_; }
  // For the start-up.
  const std::string &note() const { return note_; }

private:
  Evaluation(Data data, uint64_t every) : data_(std::move(data)), every_(every) {}
  Data data_;
  uint64_t every_ = 0, batches_ = 0;
  std::string note_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_EVALUATION_H
