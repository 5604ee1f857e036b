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

// What who started this program has it ignore, as nohup does SIGHUP, it ignores.
sigset_t handled() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT); // a shell has all that it starts in the background ignore it
  ::sigaddset(&set, SIGTERM);
  for (int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction present {};
    if (::sigaction(signal, nullptr, &present) == 0 && present.sa_handler != SIG_IGN)
      ::sigaddset(&set, signal);
  }
  return set;
}

// To standard error, which nobody may read any more.
void say(const std::string &line) {
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// Takes signals for a second and forgets them: who stops a program and its process group,
// as timeout(1) does, sends two at once and means one.
void dropEchoes(const sigset_t &set) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::now() + std::chrono::seconds(1);
  for (Clock::duration left = end - Clock::now(); left.count() > 0; left = end - Clock::now()) {
    timespec wait = {0, std::min<long>(std::chrono::nanoseconds(left).count(), 999'999'999)};
    ::sigtimedwait(&set, nullptr, &wait);
  }
}

} // namespace

// No thread that computes may take a signal: oneDNN's code turns the stack pointer to its
// own buffers, where a handler's frame would overwrite the heap. One thread waits for them
// instead; all others, made later, inherit that they are blocked.
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
  dropEchoes(set);
  ::sigwait(&set, &signal);
  support::removeTemporaries();
  ::signal(signal, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
}
