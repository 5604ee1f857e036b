#include "lib/support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t llmc::support::hash64(const void *data, size_t size) {
  return XXH3_64bits(data, size);
}
