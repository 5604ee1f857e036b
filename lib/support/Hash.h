// XXH3, the only hash of llmc's files.
#ifndef LLMC_LIB_SUPPORT_HASH_H
#define LLMC_LIB_SUPPORT_HASH_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmc::support {

// XXH3-64 of `size` bytes, seed 0.
uint64_t hash64(const void *data, size_t size);

inline uint64_t hash64(std::string_view text) {
  return hash64(text.data(), text.size());
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_HASH_H
