// Forks children that take indices from a shared counter and write results to shared memory.
#include "lib/verify/mutation/ChildProcesses.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace llmc::verify {

namespace {

struct Record {
  int owner = -1; // child that started it
  bool done = false;
  char said[501] = {};
};

struct Shared {
  std::atomic<size_t> next = 0;
};

void serve(Shared &shared, Record *records, size_t count, int child, unsigned seconds,
           const std::function<std::string(size_t)> &work) {
  for (size_t i = shared.next++; i < count; i = shared.next++) {
    records[i].owner = child;
    ::alarm(seconds);
    std::string said = work(i);
    std::strncpy(records[i].said, said.c_str(), sizeof records[i].said - 1);
    records[i].done = true;
  }
}

// Records how a child ended as the result of the item that it had started, if there is one that
// it did not finish. Returns whether there is.
bool bury(Record *records, size_t count, int child, int status) {
  const char *how = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hang" : "crash";
  bool found = false;
  for (size_t i = 0; i < count; ++i)
    if (records[i].owner == child && !records[i].done) {
      std::strncpy(records[i].said, how, sizeof records[i].said - 1);
      records[i].done = found = true;
    }
  return found;
}

} // namespace

std::vector<std::string> runInChildProcesses(size_t count, unsigned processes, unsigned seconds,
                                             const std::function<std::string(size_t)> &work,
                                             const std::function<void(size_t)> &ended) {
  size_t bytes = sizeof(Shared) + count * sizeof(Record);
  void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return {};
  Shared &shared = *new (memory) Shared();
  auto *records = reinterpret_cast<Record *>(static_cast<char *>(memory) + sizeof(Shared));
  for (size_t i = 0; i < count; ++i)
    new (records + i) Record();
  int children = 0;
  std::vector<std::pair<pid_t, int>> running;
  auto begin = [&] {
    int child = children++;
    pid_t pid = ::fork();
    if (pid == 0) {
      serve(shared, records, count, child, seconds, work);
      ::_exit(0);
    }
    if (pid > 0)
      running.push_back({pid, child});
  };
  for (unsigned i = 0; i < processes; ++i)
    begin();
  while (!running.empty()) {
    ::usleep(10'000);
    for (size_t i = 0; i < running.size(); ++i) {
      auto [pid, child] = running[i];
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) == 0)
        continue;
      running.erase(running.begin() + static_cast<long>(i--));
      if (bury(records, count, child, status))
        begin();
    }
    ended(static_cast<size_t>(
        std::count_if(records, records + count, [](const Record &r) { return r.done; })));
  }
  // Items that no child has done remain only if there was no child left to do them.
  std::vector<std::string> said;
  if (std::all_of(records, records + count, [](const Record &r) { return r.done; }))
    for (size_t i = 0; i < count; ++i)
      said.push_back(records[i].said);
  ::munmap(memory, bytes);
  return said;
}

} // namespace llmc::verify
