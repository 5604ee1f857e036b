// Maps the arena with mmap and groups overlapping operands between guard bytes.
#include "lib/verify/kernels/OperandMemory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <sys/mman.h>

namespace llmc::verify {
namespace {

constexpr uint64_t kGuardBytes = 1024, kLine = 64;
constexpr uint32_t kPoison = 0x7fc0dead; // a NaN, as a float
constexpr uint16_t kPoisonHalf = 0x7fde; // a NaN, as a float16 and as a bfloat16
constexpr std::byte kPoisonByte{0xa5};

bool meet(const OperandBytes &a, const OperandBytes &b) {
  return a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

} // namespace

ScratchMapping::~ScratchMapping() { release(); }

void ScratchMapping::release() {
  if (start)
    ::munmap(start, size);
  start = nullptr;
  size = 0;
}

std::byte *ScratchMapping::reserve(size_t bytes) {
  if (bytes <= size)
    return start;
  release();
  void *made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED)
    throw std::bad_alloc();
  ::madvise(made, bytes, MADV_HUGEPAGE);
  start = static_cast<std::byte *>(made);
  size = bytes;
  return start;
}

uint64_t OperandMemory::bytesFor(const std::vector<OperandBytes> &extents) {
  uint64_t bytes = kGuardBytes;
  for (const OperandBytes &extent : extents)
    bytes += extent.size + 2 * kLine + kGuardBytes;
  return bytes;
}

OperandMemory::OperandMemory(ScratchMapping &arena, std::vector<OperandBytes> given)
    : extents(std::move(given)), places(extents.size()), poisoned(extents.size()) {
  std::byte *base = arena.reserve(bytesFor(extents)), *next = base;
  std::vector<size_t> order(extents.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return extents[a].offset < extents[b].offset; });
  for (size_t i = 0; i < order.size();) {
    uint64_t begin = extents[order[i]].offset, end = begin;
    std::byte *start =
        base + (next + kGuardBytes - base + kLine - 1) / kLine * kLine + begin % kLine;
    guards.push_back({next, static_cast<size_t>(start - next)});
    for (; i < order.size() && (extents[order[i]].offset < end || end == begin); ++i) {
      const OperandBytes &extent = extents[order[i]];
      places[order[i]] = start + (extent.offset - begin);
      end = std::max(end, extent.offset + extent.size);
      if (end == begin) // no bytes
        ++end;
    }
    next = start + (end - begin);
  }
  guards.push_back({next, kGuardBytes});
  for (size_t i = 0; i < extents.size(); ++i)
    poisoned[i] = extents[i].written && std::none_of(extents.begin(), extents.end(), [&](auto &e) {
                    return e.read && meet(e, extents[i]);
                  });
}

std::vector<std::pair<uint64_t, uint64_t>> OperandMemory::usedOf(size_t i) const {
  return extents[i].used.empty() ? std::vector<std::pair<uint64_t, uint64_t>>{{0, extents[i].size}} : extents[i].used;
}

void OperandMemory::poison() {
  for (const Guard &border : guards)
    std::memset(border.begin, int(kPoisonByte), border.size);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (!poisoned[i])
      continue;
    for (auto [begin, end] : usedOf(i)) {
      std::byte *from = places[i] + begin;
      if (extents[i].bytesOfElement == 1)
        std::memset(from, int(kPoisonByte), end - begin);
      else if (extents[i].bytesOfElement == 2)
        std::fill_n(reinterpret_cast<uint16_t *>(from), (end - begin) / 2, kPoisonHalf);
      else
        std::fill_n(reinterpret_cast<uint32_t *>(from), (end - begin) / 4, kPoison);
    }
  }
}

int64_t OperandMemory::firstUnwritten(size_t i) const {
  if (!poisoned[i])
    return -1;
  auto find = [&](auto pattern) -> int64_t {
    for (auto [first, last] : usedOf(i)) {
      auto *begin = reinterpret_cast<decltype(pattern) *>(places[i] + first);
      auto *end = begin + (last - first) / sizeof(pattern);
      if (auto *at = std::find(begin, end, pattern); at != end)
        return static_cast<int64_t>((first + (at - begin) * sizeof(pattern)) / extents[i].bytesOfElement);
    }
    return -1;
  };
  return extents[i].bytesOfElement == 1   ? find(kPoisonByte)
         : extents[i].bytesOfElement == 2 ? find(kPoisonHalf)
                                          : find(kPoison);
}

bool OperandMemory::isGuardOverwritten() const {
  return std::any_of(guards.begin(), guards.end(), [](const Guard &border) {
    return std::any_of(border.begin, border.begin + border.size,
                       [](std::byte b) { return b != kPoisonByte; });
  });
}

} // namespace llmc::verify
