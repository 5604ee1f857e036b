// Tracks the last writer and the readers since, for each arena byte of one rank. Ranges with
// equal history form one interval; a write merges the intervals that it covers, so a whole
// step costs nearly linear time. The test is test/runtime/AdversaryTest.cpp.
#ifndef LLMC_RUNTIME_PLAN_SHADOW_H
#define LLMC_RUNTIME_PLAN_SHADOW_H

#include <cstdint>
#include <map>
#include <vector>

namespace llmc::runtime {

// Identifies the writer of bytes that hold a value before the first step.
inline constexpr uint32_t kInitialWriter = ~0u;

// Describes one interval of bytes with equal history; its key in Shadow::Cells is the first
// byte.
struct ShadowCell {
  uint64_t end = 0;
  uint32_t writer = kInitialWriter; // node, as numbered by the caller
  uint32_t lane = 0;                // of the buffer that it wrote
  uint64_t writtenBegin = 0, writtenEnd = 0; // extent of that write, overwritten bytes included
  bool accumulated = false;         // the writer read the bytes before
  bool persistent = false;          // carried from one micro-batch or step to the next
  std::vector<uint32_t> readers;    // nodes that have read it since
};

// Maps byte ranges of an arena to their cells.
class Shadow {
public:
  using Cells = std::map<uint64_t, ShadowCell>; // by first byte, disjoint

  // Splits cells so that none crosses `begin` or `end`; returns the range of the cells inside
  // [begin, end).
  std::pair<Cells::iterator, Cells::iterator> isolate(uint64_t begin, uint64_t end) {
    cut(begin);
    cut(end);
    return {cells.lower_bound(begin), cells.lower_bound(end)};
  }

  // Replaces everything in [begin, end) by cells with this writer and no readers: one for
  // each run of equal persistence.
  void overwrite(uint64_t begin, uint64_t end, uint32_t writer, uint32_t lane,
                 bool accumulated) {
    auto [it, last] = isolate(begin, end);
    uint64_t from = begin;
    while (it != last) {
      if (!it->second.persistent) {
        it = cells.erase(it);
        continue;
      }
      if (from < it->first)
        cells.emplace_hint(it, from,
                           ShadowCell{it->first, writer, lane, begin, end, accumulated, false, {}});
      ShadowCell &cell = it->second;
      cell = {cell.end, writer, lane, begin, end, accumulated, true, {}};
      from = it->second.end;
      ++it;
    }
    if (from < end)
      cells.emplace_hint(it, from, ShadowCell{end, writer, lane, begin, end, accumulated, false, {}});
  }

  // Declares that bytes [begin, end) persist over steps and hold a value from the start.
  void addPersistent(uint64_t begin, uint64_t end) {
    if (begin == end)
      return;
    auto [it, last] = isolate(begin, end);
    cells.erase(it, last);
    cells.emplace(begin, ShadowCell{end, kInitialWriter, 0, begin, end, false, true, {}});
  }

private:
  void cut(uint64_t at) {
    auto it = cells.lower_bound(at);
    if (it == cells.begin())
      return;
    --it;
    if (it->second.end <= at)
      return;
    ShadowCell upper = it->second;
    it->second.end = at;
    cells.emplace(at, std::move(upper));
  }

  Cells cells;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PLAN_SHADOW_H
