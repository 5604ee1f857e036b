// Computes the loss on held-out data with the current weights. The test is
// test/runtime/TrainerTest.cpp.
#ifndef LLMC_RUNTIME_TRAIN_EVALUATION_H
#define LLMC_RUNTIME_TRAIN_EVALUATION_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "runtime/data/Data.h"
#include "runtime/cpu/Executor.h"
#include "runtime/session/Options.h"
#include "runtime/train/Retry.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace llmc::runtime {

// Owns the data of --eval-data.
class Evaluation {
public:
  // Opens --eval-data and begins to check its tokens. Fails if the file does not suit the
  // program or has a bad token that is found soon.
  static support::Result<Evaluation> open(const planfile::ProgramT &program,
                                          const Options &options, support::Progress &progress);

  // Returns the mean loss over the tokens of batches() global batches, in file order; rows
  // that do not fill a global batch are left out. Changes no weight and no moment
  // (Executor::evaluate()); batches whose rows find no room run again by `retry`. Returns none if `stop` was
  // set meanwhile.
  support::Result<std::optional<double>> run(Executor &executor, Retry &retry, support::Progress &progress,
                                             const std::atomic<bool> *stop);

  // Returns whether an evaluation is due after `done` of `steps` steps.
  bool due(uint64_t done, uint64_t steps) const {
    return done == steps || (every_ > 0 && done > 0 && done % every_ == 0);
  }
  uint64_t batches() const { return batches_; }
  // Returns one line for the start-up.
  const std::string &note() const { return note_; }

private:
  Evaluation(Data data, uint64_t every) : data_(std::move(data)), every_(every) {}
  Data data_;
  uint64_t every_ = 0, batches_ = 0;
  std::string note_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_EVALUATION_H
