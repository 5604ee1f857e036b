#include "tools/llmc/Interrupt.h"

#include "lib/support/OutputFile.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace {

int wake[2];

std::string &temporaryFolder() {
  static std::string folder;
  return folder;
}

// Passes the signal to a thread and does only what is async-signal-safe. Child processes
// inherit neither handler nor thread, while a blocked signal would stay blocked in them.
void onSignal(int signal) {
  int before = errno;
  auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] ssize_t written = ::write(wake[1], &byte, 1);
  errno = before;
}

void waitForSignal() {
  unsigned char signal = 0;
  while (::read(wake[0], &signal, 1) != 1)
    if (errno != EINTR)
      return;
  llmc::support::removeTemporaries();
  std::error_code ignored;
  if (!temporaryFolder().empty())
    std::filesystem::remove_all(temporaryFolder(), ignored);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

} // namespace

void llmc::removeTemporariesOnSignals(std::string folder) {
  temporaryFolder() = std::move(folder);
  if (::pipe2(wake, O_CLOEXEC) != 0)
    return;
  std::thread(waitForSignal).detach();
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN)
      continue;
    action.sa_handler = onSignal;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}
