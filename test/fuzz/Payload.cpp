// The bytes as they are, then with their checksums repaired: past them lies all
// that reads the directory.
#include "lib/planfile/Payload.h"
#include "Fuzz.h"
#include "lib/support/Hash.h"

#include <cstring>

using namespace llmc;

namespace {

// trailer: u64 begin, directory, its size, its hash, hash of these; magic
constexpr size_t kTrailer = 48, kHashed = 32;

void repair(std::string &file) {
  char *trailer = file.data() + file.size() - kTrailer;
  uint64_t at, size;
  std::memcpy(&at, trailer + 8, 8);
  std::memcpy(&size, trailer + 16, 8);
  if (at <= file.size() && size <= file.size() - at) {
    // Sections: u32 length, name, u64 offset, size, hash.
    size_t entry = at + 4, end = at + size;
    while (entry + 4 <= end) {
      uint32_t length;
      std::memcpy(&length, file.data() + entry, 4);
      size_t numbers = entry + 4 + length;
      if (numbers + 24 > end)
        break;
      uint64_t first, bytes;
      std::memcpy(&first, file.data() + numbers, 8);
      std::memcpy(&bytes, file.data() + numbers + 8, 8);
      if (first <= file.size() && bytes <= file.size() - first) {
        uint64_t hash = support::hash64(file.data() + first, bytes);
        std::memcpy(file.data() + numbers + 16, &hash, 8);
      }
      entry = numbers + 24;
    }
    uint64_t hash = support::hash64(file.data() + at, size);
    std::memcpy(trailer + 24, &hash, 8);
  }
  uint64_t hash = support::hash64(trailer, kHashed);
  std::memcpy(trailer + kHashed, &hash, 8);
}

void read(std::string_view bytes) {
  auto payload = planfile::Payload::open(test::fileWith(bytes));
  if (!payload)
    return;
  unsigned sum = 0;
  for (std::string_view name : {planfile::kPlanSection, planfile::kKernelsSection})
    if (auto section = payload->section(name))
      for (char c : *section)
        sum += unsigned(c);
  volatile unsigned keep = sum;
  (void)keep;
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string file(test::view(data, size));
  read(file);
  if (size < kTrailer)
    return 0;
  repair(file);
  read(file);
  return 0;
}
