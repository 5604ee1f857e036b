#include "runtime/cpu/Arena.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace llmc;
using namespace llmc::runtime;
using support::error;

namespace {
uint64_t pageSize() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }
uint64_t wholePages(uint64_t bytes) { return (bytes + pageSize() - 1) / pageSize() * pageSize(); }
} // namespace

support::Result<Arena> Arena::map(uint64_t bytes, uint64_t reserved) {
  uint64_t page = pageSize();
  Arena arena;
  arena.size_ = bytes;
  arena.mapped_ = wholePages(bytes);
  arena.reserved_ = std::max(arena.mapped_, wholePages(reserved));
  void *at = ::mmap(nullptr, arena.reserved_ + 2 * page, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return error("cannot map an arena of ", bytes, " bytes: ", std::strerror(errno));
  arena.data_ = static_cast<std::byte *>(at) + page;
  if (arena.mapped_ > 0) {
    if (::mprotect(arena.data_, arena.mapped_, PROT_READ | PROT_WRITE) != 0)
      return error("cannot open an arena of ", bytes, " bytes: ", std::strerror(errno));
    ::madvise(arena.data_, arena.mapped_, MADV_HUGEPAGE); // best effort
  }
  return arena;
}

support::Result<Arena> Arena::view(uint64_t bytes) const {
  Arena arena;
  arena.data_ = data_;
  arena.size_ = bytes;
  arena.mapped_ = wholePages(bytes);
  arena.reserved_ = reserved_;
  arena.owned_ = false;
  if (arena.mapped_ > reserved_)
    return error("an arena of ", bytes, " bytes does not fit the ", reserved_, " that are reserved for it");
  if (arena.mapped_ > 0 && ::mprotect(data_, arena.mapped_, PROT_READ | PROT_WRITE) != 0)
    return error("cannot open an arena of ", bytes, " bytes: ", std::strerror(errno));
  return arena;
}

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  std::swap(reserved_, other.reserved_);
  std::swap(owned_, other.owned_);
  return *this;
}

Arena::~Arena() {
  if (data_ && owned_)
    ::munmap(data_ - pageSize(), reserved_ + 2 * pageSize());
}

void Arena::close() const {
  if (mapped_ > 0)
    ::mprotect(data_, mapped_, PROT_NONE);
}

void Arena::open() const {
  if (mapped_ > 0)
    ::mprotect(data_, mapped_, PROT_READ | PROT_WRITE);
}

void Arena::protect() const {
  if (mapped_ > 0)
    ::mprotect(data_, mapped_, PROT_READ);
}

// Reads the number that follows `key` in a file of lines "key: number kB", in bytes; 0 if there is none.
static uint64_t readKilobytes(const char *file, std::string_view key) {
  std::ifstream info(file);
  std::string line;
  while (std::getline(info, line))
    if (line.starts_with(key))
      return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  return 0;
}

uint64_t runtime::availableMemory() { return readKilobytes("/proc/meminfo", "MemAvailable:"); }

uint64_t runtime::peakMemory() { return readKilobytes("/proc/self/status", "VmHWM:"); }
