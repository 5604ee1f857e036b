// Handles the signals that end a run: SIGINT, SIGTERM, SIGHUP and those that batch systems
// send ahead of a time limit, SIGUSR1, SIGUSR2 and SIGXCPU. Tests:
// test/runtime/TrainerTest.cpp (SIGINT), test/numerics/failures.py (the others).
#ifndef LLMC_RUNTIME_SESSION_SIGNALS_H
#define LLMC_RUNTIME_SESSION_SIGNALS_H

#include <atomic>
#include <string>

namespace llmc::runtime {

// Ends a run after its current step at the first signal, so that its results can be written,
// or at once if no step has ended yet. A second signal, a second later or more, ends it at
// once. Exit statuses are those of a shell: 128 plus the signal's number.
class StopSignals {
public:
  // Installs the handling for the rest of the process; this object must live as long. The
  // caller must have made no other thread. Failing writes then return errors instead of
  // raising SIGPIPE or SIGXFSZ.
  void install(const std::string &program);

  std::atomic<bool> asked{false}; // set by the first signal; the run reads it (RunContext::stop)
  std::atomic<bool> begun{false}; // set by the run when a step has ended (RunContext::begun)
  int exitStatus() const { return 128 + which_; }

private:
  void wait();

  std::string program_;
  std::atomic<int> which_{0};
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_SIGNALS_H
