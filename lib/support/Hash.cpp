#include "lib/support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t llmc::support::hash64(const void *data, size_t size) {
  return XXH3_64bits(data, size);
}

uint64_t llmc::support::sampledHash(const void *data, size_t size) {
  constexpr size_t block = size_t(64) << 10, blocks = 256;
  if (size <= block * blocks)
    return hash64(data, size);
  XXH3_state_t *state = XXH3_createState();
  XXH3_64bits_reset(state);
  size_t last = size - block;
  for (size_t i = 0; i < blocks; ++i) {
    size_t at = last / (blocks - 1) * i + last % (blocks - 1) * i / (blocks - 1);
    XXH3_64bits_update(state, static_cast<const char *>(data) + at, block);
  }
  uint64_t hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}
