// Reports the progress of a verification. Tested by test/numerics/tool.py (verify_tells).
#ifndef LLMC_LIB_VERIFY_SUBJECT_PROGRESSPHASE_H
#define LLMC_LIB_VERIFY_SUBJECT_PROGRESSPHASE_H

#include "lib/support/Progress.h"

#include <functional>
#include <optional>
#include <string>

namespace llmc::verify {

// Opens a phase of `progress` for its own lifetime; does nothing if `progress` is null.
class ProgressPhase {
public:
  ProgressPhase(support::Progress *progress, const std::string &name, uint64_t total = 0) {
    if (progress)
      phase.emplace(*progress, name, total);
  }
  // Returns a function that counts one of `total`; it must not outlive this object.
  std::function<void()> counter() {
    return [this] {
      if (phase)
        phase->add(1);
    };
  }

  void add(uint64_t count) {
    if (phase)
      phase->add(count);
  }

  // Sets the count to `done` of `total`.
  void reach(uint64_t done) {
    if (phase)
      phase->reach(done);
  }

private:
  std::optional<support::Progress::Phase> phase;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_PROGRESSPHASE_H
