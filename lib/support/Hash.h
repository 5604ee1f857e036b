// XXH3, the only hash of llmc's files.
#ifndef LLMC_LIB_SUPPORT_HASH_H
#define LLMC_LIB_SUPPORT_HASH_H

#include "lib/support/Error.h"
#include "lib/support/File.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace llmc::support {

// XXH3-64 of `size` bytes, seed 0.
uint64_t hash64(const void *data, size_t size);

inline uint64_t hash64(std::string_view text) {
  return hash64(text.data(), text.size());
}

// Of a file of up to 16 MiB all bytes; of a larger one 256 blocks of 64 KiB, evenly
// spread, the first and the last among them: it notices a file that was written
// anew, not every changed byte, and costs the same for weights of any size.
uint64_t sampledHash(const void *data, size_t size);
Result<uint64_t> sampledHash(const ReadableFile &file); // the same

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_HASH_H
