// Files in memory. mmap() is wrapped by the linker: a mapped file becomes a block
// of the heap, so that the sanitizer sees a byte read behind its end (the page of
// a mapping would go on).
#include "Fuzz.h"

#include <cstdlib>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

static std::set<void *> &blocks() {
  static std::set<void *> all;
  return all;
}

extern "C" {
void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fd < 0)
    return __real_mmap(at, size, protection, flags, fd, offset);
  void *block = nullptr;
  if (::posix_memalign(&block, 4096, size) != 0)
    return MAP_FAILED;
  if (::pread(fd, block, size, offset) != ssize_t(size))
    std::abort();
  blocks().insert(block);
  return block;
}

int __wrap_munmap(void *at, size_t size) {
  if (!blocks().erase(at))
    return __real_munmap(at, size);
  std::free(at);
  return 0;
}
}

const std::string &llmc::test::fileWith(std::string_view bytes) {
  static int fd = ::memfd_create("input", MFD_CLOEXEC);
  static std::string path = "/proc/self/fd/" + std::to_string(fd);
  size_t done = 0;
  if (fd < 0 || ::ftruncate(fd, 0) != 0)
    std::abort();
  while (done < bytes.size()) {
    ssize_t count = ::pwrite(fd, bytes.data() + done, bytes.size() - done, off_t(done));
    if (count <= 0)
      std::abort();
    done += size_t(count);
  }
  return path;
}
