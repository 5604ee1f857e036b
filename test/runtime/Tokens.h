// Builds token sequences, for tests of code that reads them.
#ifndef LLMC_TEST_RUNTIME_TOKENS_H
#define LLMC_TEST_RUNTIME_TOKENS_H

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::test {

// Returns the bytes of tokens as files hold them, each as wide as T.
template <class T>
std::string raw(std::vector<int64_t> values) {
  std::string bytes;
  for (int64_t value : values) {
    T narrow = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char *>(&narrow), sizeof narrow);
  }
  return bytes;
}

// Returns 0, 1, ..., again from 0 at `modulo`.
inline std::vector<int64_t> counting(int64_t count, int64_t modulo = 100) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(i % modulo);
  return values;
}

} // namespace llmc::test

#endif // LLMC_TEST_RUNTIME_TOKENS_H
