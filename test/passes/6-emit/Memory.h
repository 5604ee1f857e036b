// Allocates memory that ends at the end of a page with an inaccessible page behind it: an access
// one byte too far crashes.
#ifndef LLMC_TEST_PASSES_EMIT_MEMORY_H
#define LLMC_TEST_PASSES_EMIT_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace llmc::test {

// Returns whether an element is of 16 bits: bf16 or f16.
bool isNarrow(const std::string &element);
// Returns a number as a float element holds it.
double roundedTo(const std::string &element, double value);

class Buffer {
public:
  // Allocates `count` elements at an address that is a multiple of `alignment` bytes; the bytes
  // that this leaves before the end of the page are zeros.
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

// Loads a shared object from memory; `problem` tells why it could not.
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
