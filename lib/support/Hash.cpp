#include "lib/support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

using namespace llmc::support;

uint64_t llmc::support::hash64(const void *data, size_t size) {
  return XXH3_64bits(data, size);
}

uint64_t llmc::support::hashChunkCount(uint64_t fileSize) {
  return fileSize == 0 ? 1 : (fileSize - 1) / kHashChunk + 1;
}

Result<uint64_t> llmc::support::chunkHash(const ReadableFile &file, uint64_t chunk) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 XXH3_freeState);
  XXH3_64bits_reset(state.get());
  constexpr uint64_t kPart = uint64_t(1) << 20; // bytes, fits a cache
  std::vector<char> buffer(kPart);
  uint64_t end = std::min(file.size(), (chunk + 1) * kHashChunk);
  for (uint64_t at = chunk * kHashChunk; at < end; at += kPart) {
    size_t size = std::min(kPart, end - at);
    if (Status s = file.read(at, buffer.data(), size); !s)
      return s.takeError();
    XXH3_64bits_update(state.get(), buffer.data(), size);
  }
  return XXH3_64bits_digest(state.get());
}

uint64_t llmc::support::fileHash(std::span<const uint64_t> chunks) {
  return chunks.size() == 1 ? chunks[0] : hash64(chunks.data(), chunks.size_bytes());
}

// Reads instead of mapping: a hole or a page that is not in memory yet costs a page fault each.
Result<uint64_t> llmc::support::fileHash(const ReadableFile &file,
                                         const std::function<void(uint64_t)> &hashed) {
  std::vector<uint64_t> hashes(hashChunkCount(file.size()));
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  Status status;
  auto work = [&] {
    for (uint64_t i; (i = next++) < hashes.size();) {
      Result<uint64_t> hash = chunkHash(file, i);
      if (hashed)
        hashed(std::min(kHashChunk, file.size() - i * kHashChunk));
      std::lock_guard lock(mutex);
      if (hash)
        hashes[i] = *hash;
      else
        status = hash.takeError();
    }
  };
  std::vector<std::thread> helpers(
      std::min<uint64_t>(std::max(1u, std::thread::hardware_concurrency()), hashes.size()) - 1);
  for (std::thread &helper : helpers)
    helper = std::thread(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (!status)
    return status.takeError();
  return fileHash(hashes);
}
