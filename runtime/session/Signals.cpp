#include "runtime/session/Signals.h"

#include "lib/support/OutputFile.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <unistd.h>

using namespace llmc::runtime;

namespace {

// Returns the signals to handle, except those that the parent process has set to be ignored,
// as nohup does with SIGHUP.
sigset_t handled() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT); // even if ignored: shells ignore it for background jobs
  ::sigaddset(&set, SIGTERM);
  for (int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction present {};
    if (::sigaction(signal, nullptr, &present) == 0 && present.sa_handler != SIG_IGN)
      ::sigaddset(&set, signal);
  }
  return set;
}

// Writes to standard error and ignores failures: it may be closed.
void say(const std::string &line) {
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// Discards signals for a second: a program that stops both a process and its process group,
// as timeout(1) does, sends two at once and means one.
void discardRepeatedSignals(const sigset_t &set) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::now() + std::chrono::seconds(1);
  for (Clock::duration left = end - Clock::now(); left.count() > 0; left = end - Clock::now()) {
    timespec wait = {0, std::min<long>(std::chrono::nanoseconds(left).count(), 999'999'999)};
    ::sigtimedwait(&set, nullptr, &wait);
  }
}

} // namespace

// Blocks the signals in all threads but one, which waits for them: threads that are made
// later inherit the mask. No computing thread may take a signal, since oneDNN's code points
// the stack pointer into its own buffers, where a handler's frame would overwrite the heap.
void StopSignals::install(const std::string &program) {
  program_ = program;
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  sigset_t set = handled();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([this] { wait(); }).detach();
}

void StopSignals::wait() {
  sigset_t set = handled();
  int signal = 0;
  ::sigwait(&set, &signal);
  which_ = signal;
  std::string name = std::string("SIG") + ::sigabbrev_np(signal);
  if (!begun) {
    say(program_ + ": " + name +
        ": ended before there was anything to keep; no file was changed\n");
    support::removeTemporaries();
    ::_exit(exitStatus());
  }
  asked = true;
  say(program_ + ": " + name + ": ends after this step; a signal after a second ends it at once\n");
  discardRepeatedSignals(set);
  ::sigwait(&set, &signal);
  support::removeTemporaries();
  ::signal(signal, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
}
