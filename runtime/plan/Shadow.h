// For each arena byte of one rank: who wrote it last and who has read it since.
// Ranges with equal history are one interval; a write merges what it covers, so
// a whole step costs nearly linear time.
#ifndef LLMC_RUNTIME_PLAN_SHADOW_H
#define LLMC_RUNTIME_PLAN_SHADOW_H

#include <cstdint>
#include <map>
#include <vector>

namespace llmc::runtime {

// The writer of bytes that hold a value before the first step.
inline constexpr uint32_t kInitialWriter = ~0u;

struct ShadowCell {
  uint64_t end = 0;
  uint32_t writer = kInitialWriter; // node
  uint32_t lane = 0;                // of its buffer
  uint64_t writtenBegin = 0, writtenEnd = 0; // all bytes of that write, overwritten ones too
  bool accumulated = false;         // the writer had read what was there
  bool persistent = false;          // meant to be carried from one micro-batch to the next
  std::vector<uint32_t> readers;    // nodes, the last one of each stream
};

class Shadow {
public:
  using Cells = std::map<uint64_t, ShadowCell>; // by first byte, disjoint

  // Cuts cells so that none reaches over `begin` or `end`; returns the cells
  // inside [begin, end).
  std::pair<Cells::iterator, Cells::iterator> isolate(uint64_t begin, uint64_t end) {
    cut(begin);
    cut(end);
    return {cells.lower_bound(begin), cells.lower_bound(end)};
  }

  // Replaces everything in [begin, end) by one cell with this writer. Where
  // persistence differs the cells stay apart.
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

  // Declares bytes that persist over steps and hold a value from the start.
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
