// Declares what the fuzz targets share. Each passes libFuzzer's bytes to one reader as a file; a
// reader may refuse them, but must not crash, hang, leak or read out of bounds.
#ifndef LLMC_TEST_FUZZ_FUZZ_H
#define LLMC_TEST_FUZZ_FUZZ_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llmc::test {

// Returns the path of a file that holds `bytes`, until the next call.
const std::string &fileWith(std::string_view bytes);

inline std::string_view view(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

// Takes a T from the front of `bytes`; missing bytes are zero.
template <class T>
T take(std::string_view &bytes) {
  T value{};
  size_t count = bytes.size() < sizeof value ? bytes.size() : sizeof value;
  __builtin_memcpy(&value, bytes.data(), count);
  bytes.remove_prefix(count);
  return value;
}

} // namespace llmc::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif // LLMC_TEST_FUZZ_FUZZ_H
