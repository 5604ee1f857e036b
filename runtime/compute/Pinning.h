// Threads to cores, one each, where that can do no harm.
//
// A program pins its threads only if it has as many as it may use cores (its
// affinity mask), so that there is nothing to choose and every core gets one;
// and only if no other program of ours has pinned to one of these cores. A claim
// is a name in the abstract socket space: it ends with its process, whatever
// ends that. Else the system moves the threads, as it does without us.
#ifndef LLMC_RUNTIME_COMPUTE_PINNING_H
#define LLMC_RUNTIME_COMPUTE_PINNING_H

#include <optional>
#include <sched.h>
#include <vector>

namespace llmc::runtime {

// Cores that this thread may use, in order; empty if the system does not tell.
std::vector<int> allowedCores();

class Pinning {
public:
  // Claims a core for each of `threads` threads; none if it should not be done.
  static std::optional<Pinning> claim(unsigned threads);
  Pinning(Pinning &&other) noexcept;
  Pinning &operator=(Pinning &&other) noexcept;
  ~Pinning();

  // The calling thread is number `thread` from now on.
  void pin(unsigned thread) const;

  // The calling thread is number 0 while this lives.
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
