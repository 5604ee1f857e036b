// What a verification is at, for those who wait for it.
#ifndef LLMC_LIB_VERIFY_SUBJECT_DOING_H
#define LLMC_LIB_VERIFY_SUBJECT_DOING_H

#include "lib/support/Progress.h"

#include <functional>
#include <optional>
#include <string>

namespace llmc::verify {

// A phase of `progress` for as long as it lives, nothing without one.
class Doing {
public:
  Doing(support::Progress *progress, const std::string &name, uint64_t total = 0) {
    if (progress)
      phase.emplace(*progress, name, total);
  }
  // Counts one of `total` when it is called.
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

  // Says that `done` of `total` are behind it.
  void reach(uint64_t done) {
    if (phase)
      phase->reach(done);
  }

private:
  std::optional<support::Progress::Phase> phase;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SUBJECT_DOING_H
