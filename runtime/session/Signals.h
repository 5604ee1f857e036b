// Signals that end a run: SIGINT, SIGTERM, SIGHUP and those that batch systems send ahead
// of a time limit, SIGUSR1, SIGUSR2 and SIGXCPU.
#ifndef LLMC_RUNTIME_SESSION_SIGNALS_H
#define LLMC_RUNTIME_SESSION_SIGNALS_H

#include <atomic>
#include <string>

namespace llmc::runtime {

// The first signal ends a run after its step, so that what it has done can be written;
// the next one, a second later or more, ends it at once, as does the first if there is nothing to lose yet. Exit
// statuses are those of a shell: 128 and the signal's number.
class StopSignals {
public:
  // From here on, and for the rest of the process: this object must live as long. Before
  // any other thread is made. Writes that fail are errors of the write, not signals.
  void install(const std::string &program);

  std::atomic<bool> asked{false}; // for RunContext::stop
  std::atomic<bool> begun{false}; // for RunContext::begun
  int exitStatus() const { return 128 + which_; }

private:
  void wait();

  std::string program_;
  std::atomic<int> which_{0};
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_SIGNALS_H
