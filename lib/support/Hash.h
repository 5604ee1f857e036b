// Computes XXH3, the only hash of llmc's files. Tests: test/runtime/ShardReaderTest.cpp.
#ifndef LLMC_LIB_SUPPORT_HASH_H
#define LLMC_LIB_SUPPORT_HASH_H

#include "lib/support/Error.h"
#include "lib/support/File.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace llmc::support {

// Returns the XXH3-64 of `size` bytes, seed 0.
uint64_t hash64(const void *data, size_t size);

inline uint64_t hash64(std::string_view text) {
  return hash64(text.data(), text.size());
}

// Defines the hash of a file over chunks that can be read concurrently and in any order: of one
// chunk it is hash64 of its bytes, of several hash64 of their hashes.
constexpr uint64_t kHashChunk = uint64_t(16) << 20;
uint64_t hashChunkCount(uint64_t fileSize); // number of chunks, at least one
Result<uint64_t> chunkHash(const ReadableFile &file, uint64_t chunk);
uint64_t fileHash(std::span<const uint64_t> chunks);
// Hashes a file on all processors; calls `hashed` with the bytes of each finished chunk, from any
// thread.
Result<uint64_t> fileHash(const ReadableFile &file,
                          const std::function<void(uint64_t bytes)> &hashed = {});

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_HASH_H
