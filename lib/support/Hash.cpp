#include "lib/support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <memory>
#include <optional>
#include <vector>

using namespace llmc::support;

uint64_t llmc::support::hash64(const void *data, size_t size) {
  return XXH3_64bits(data, size);
}

namespace {

constexpr size_t kBlock = size_t(64) << 10, kBlocks = 256;

// `bytesAt(offset, size)` is a pointer, null if they cannot be had.
template <class F>
std::optional<uint64_t> hashOfSamples(size_t size, F bytesAt) {
  if (size <= kBlock * kBlocks) {
    const void *all = bytesAt(0, size);
    return all || size == 0 ? std::optional(hash64(all, size)) : std::nullopt;
  }
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 XXH3_freeState);
  XXH3_64bits_reset(state.get());
  size_t last = size - kBlock;
  for (size_t i = 0; i < kBlocks; ++i) {
    size_t at = last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1);
    const void *block = bytesAt(at, kBlock);
    if (!block)
      return std::nullopt;
    XXH3_64bits_update(state.get(), block, kBlock);
  }
  return XXH3_64bits_digest(state.get());
}

} // namespace

uint64_t llmc::support::sampledHash(const void *data, size_t size) {
  return *hashOfSamples(
      size, [&](size_t at, size_t) { return static_cast<const char *>(data) + at; });
}

Result<uint64_t> llmc::support::sampledHash(const ReadableFile &file) {
  std::vector<char> buffer;
  Status status;
  std::optional<uint64_t> hash = hashOfSamples(file.size(), [&](size_t at, size_t size) {
    buffer.resize(size);
    status = file.read(at, buffer.data(), size);
    return status ? buffer.data() : nullptr;
  });
  if (!hash)
    return status.takeError();
  return *hash;
}
