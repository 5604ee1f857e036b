#include "runtime/compute/Pinning.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace llmc::runtime;

namespace {

// Returns a socket that is bound to the name of this core on this machine, or -1 if another
// process has bound it.
int claimCore(int core) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "llmc-core-%d", core);
  int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0)
    return -1;
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size_t(length));
  if (::bind(socket, reinterpret_cast<sockaddr *>(&address), size) == 0)
    return socket;
  ::close(socket);
  return -1;
}

} // namespace

std::vector<int> llmc::runtime::allowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set))
      cores.push_back(core);
  return cores;
}

unsigned llmc::runtime::availableCores() {
  if (std::vector<int> cores = allowedCores(); !cores.empty())
    return static_cast<unsigned>(cores.size());
  return std::max(1u, std::thread::hardware_concurrency());
}

std::optional<Pinning> Pinning::claim(unsigned threads) {
  Pinning made;
  made.cores_ = allowedCores();
  if (threads < 2 || made.cores_.size() != threads)
    return std::nullopt;
  for (int core : made.cores_) {
    int socket = claimCore(core);
    if (socket < 0)
      return std::nullopt;
    made.sockets_.push_back(socket);
  }
  return made;
}

Pinning::Pinning(Pinning &&other) noexcept { *this = std::move(other); }

Pinning &Pinning::operator=(Pinning &&other) noexcept {
  std::swap(cores_, other.cores_);
  std::swap(sockets_, other.sockets_);
  return *this;
}

Pinning::~Pinning() {
  for (int socket : sockets_)
    ::close(socket);
}

void Pinning::pin(unsigned thread) const {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores_[thread % cores_.size()], &set);
  ::sched_setaffinity(0, sizeof set, &set); // best effort: a failure is ignored
}

Pinning::Scope::Scope(const std::optional<Pinning> &pinning)
    : on_(pinning && ::sched_getaffinity(0, sizeof before_, &before_) == 0) {
  if (on_)
    pinning->pin(0);
}

Pinning::Scope::~Scope() {
  if (on_)
    ::sched_setaffinity(0, sizeof before_, &before_);
}
