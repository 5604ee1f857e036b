// Pins threads to cores, one each, where that can do no harm. The test is
// test/runtime/ExecutorTest.cpp (PinsOnlyWhereItDoesNoHarm).
//
// A program pins its threads only if it has as many as its affinity mask has cores, so that
// there is nothing to choose and every core gets one; and only if no other program of ours
// has pinned to one of these cores. A claim is a name in the abstract socket space: it ends
// with its process, whatever ends that. Without a claim the system moves the threads as
// usual.
#ifndef LLMC_RUNTIME_COMPUTE_PINNING_H
#define LLMC_RUNTIME_COMPUTE_PINNING_H

#include <optional>
#include <sched.h>
#include <vector>

namespace llmc::runtime {

// Returns the cores that this thread may use, ascending; empty if the system does not tell.
std::vector<int> allowedCores();
// Returns the number of cores that this process may use.
unsigned availableCores();

// Owns the claims on the cores; its destructor gives them up.
class Pinning {
public:
  // Claims a core for each of `threads` threads; returns none if fewer than two threads are
  // asked for, their number differs from that of the allowed cores, or a core is claimed
  // already.
  static std::optional<Pinning> claim(unsigned threads);
  Pinning(Pinning &&other) noexcept;
  Pinning &operator=(Pinning &&other) noexcept;
  ~Pinning();

  // Pins the calling thread to the core of thread number `thread`.
  void pin(unsigned thread) const;

  // Pins the calling thread as number 0 and restores its affinity mask at the end. Does
  // nothing without a pinning.
  class Scope {
  public:
    explicit Scope(const std::optional<Pinning> &pinning);
    ~Scope();

  private:
    bool on_;
    cpu_set_t before_;
  };

private:
  Pinning() = default;
  std::vector<int> cores_, sockets_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_PINNING_H
