#include "runtime/cpu/Poison.h"

#include <cstring>

using namespace llmc;

// Repeats 16 bits, so that what begins in the middle of a word is a NaN too.
static constexpr uint32_t kPoison = 0xFFFDFFFD, kAnything = 0xFFFCFFFC;

static void fill(std::byte *arena, uint64_t begin, uint64_t end, uint32_t word) {
  auto part = [&](uint64_t at) { arena[at] = reinterpret_cast<const std::byte *>(&word)[at % 4]; };
  while (begin < end && begin % 4 != 0)
    part(begin++);
  for (; begin + 4 <= end; begin += 4)
    std::memcpy(arena + begin, &word, 4);
  while (begin < end)
    part(begin++);
}

void runtime::poison(std::byte *arena, uint64_t begin, uint64_t end) { fill(arena, begin, end, kPoison); }

void runtime::fillWithAnything(std::byte *arena, uint64_t begin, uint64_t end) {
  fill(arena, begin, end, kAnything);
}

uint64_t runtime::findPoison(const std::byte *arena, uint64_t begin, uint64_t end) {
  for (uint64_t at = (begin + 3) / 4 * 4; at + 4 <= end; at += 4) {
    uint32_t word;
    std::memcpy(&word, arena + at, 4);
    if (word == kPoison)
      return at;
  }
  return end;
}
