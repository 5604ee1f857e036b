// Memory whose end is the end of a page, with none behind it: one byte too far
// is a crash.
#ifndef LLMC_TEST_PASSES_EMIT_MEMORY_H
#define LLMC_TEST_PASSES_EMIT_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace llmc::test {

class Buffer {
public:
  // `alignment` of its start, in bytes; what that leaves at its end are zeros.
  Buffer(std::string element, size_t count, size_t alignment = 1);
  bool isPaddingClean() const;
  ~Buffer();
  Buffer(Buffer &&other) noexcept;
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  void *data() const { return start; }
  size_t bytes() const { return size; }
  void write(const std::vector<double> &values);
  std::vector<double> read() const;
  void fillWithGarbage() { std::memset(start, 0xA5, size); }
  const std::string element;

private:
  size_t count, size, padding, mappedSize;
  char *mapped, *start;
};

// A shared object from memory.
class Library {
public:
  explicit Library(const std::string &bytes);
  ~Library();
  void *symbol(const std::string &name) const;
  std::string problem;

private:
  void *handle = nullptr;
};

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_MEMORY_H
