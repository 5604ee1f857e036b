// Runs the parts of one instruction in parallel, on a worker thread and its helpers. The test is
// test/runtime/ExecutorTest.cpp (LaunchIsSplitOverRows).
#ifndef LLMC_RUNTIME_COMPUTE_THREADTEAM_H
#define LLMC_RUNTIME_COMPUTE_THREADTEAM_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <type_traits>
#include <vector>

namespace llmc::runtime {

// Owns the helper threads of one worker.
class ThreadTeam {
public:
  // Starts `threads` - 1 helpers; the caller is the remaining thread. Each helper first calls
  // `begin` with its number, from 1.
  explicit ThreadTeam(unsigned threads, std::function<void(unsigned)> begin = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam &) = delete;
  ThreadTeam &operator=(const ThreadTeam &) = delete;

  unsigned threads() const { return static_cast<unsigned>(helpers_.size()) + 1; }

  // Calls work(part, thread) once for every part in [0, parts), with thread in [0,
  // threads()), and returns when all calls have. Only the owner calls it, never from inside
  // `work`.
  template <class F>
  void run(int64_t parts, F &&work) {
    if (helpers_.empty() || parts < 2) {
      for (int64_t part = 0; part < parts; ++part)
        work(part, 0u);
      return;
    }
    share(parts, {&work, [](void *f, int64_t part, unsigned thread) {
                    (*static_cast<std::remove_reference_t<F> *>(f))(part, thread);
                  }});
  }

private:
  // Refers to a callable, so that a launch allocates nothing.
  struct Work {
    void *callable = nullptr;
    void (*call)(void *, int64_t, unsigned) = nullptr;
  };
  void share(int64_t parts, Work work); // wakes the helpers, works too, waits for all parts
  void help(unsigned thread);           // the loop of a helper
  void takeParts(unsigned thread);      // runs open parts until none is left

  std::vector<std::thread> helpers_;
  Work work_;
  // Holds the job number in the upper half and the parts not yet taken in the lower: a helper
  // that wakes up late finds nothing left and touches nothing else.
  std::atomic<uint64_t> open_{0};
  std::atomic<uint32_t> done_{0}; // parts finished
  std::atomic<uint32_t> job_{0};  // what sleeping helpers watch
  std::atomic<bool> stop_{false};
};

// Hints to the processor that this is a spin-wait loop.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_COMPUTE_THREADTEAM_H
