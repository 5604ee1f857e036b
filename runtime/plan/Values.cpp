#include "runtime/plan/Values.h"

#include "runtime/plan/Shadow.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;
using planfile::ByteAccess;

static_assert(kNoNode == kInitialWriter);

namespace {

class Builder {
public:
  Builder(const planfile::Trace &trace, uint32_t stage, StageValues &result)
      : trace(trace), stage(*trace.program.stages[stage]), begin(trace.stageBegin[stage]),
        count(static_cast<uint32_t>(trace.stageBegin[stage + 1] - begin)), result(result) {}

  void run() {
    result.reads.resize(count);
    result.writes.resize(count);
    result.overwrites.resize(count);
    declarePersistent();
    for (uint32_t n = 0; n < count; ++n) {
      forEach(n, [&](const ByteAccess &a) {
        if (a.read)
          read(n, a);
      });
      forEach(n, [&](const ByteAccess &a) {
        if (a.write)
          write(n, a);
      });
    }
    for (const planfile::BufferRefT *buffer : planfile::readByHost(stage)) {
      auto [it, last] = shadow.isolate(buffer->offset, buffer->offset + buffer->size);
      for (; it != last; ++it)
        it->second.persistent = true;
    }
    auto [it, last] = shadow.isolate(0, stage.arena_bytes);
    for (; it != last; ++it)
      emit(it->first, it->second, kNoNode);
  }

private:
  template <class F>
  void forEach(uint32_t n, F visit) {
    const planfile::Node &node = trace.nodes[begin + n];
    planfile::forEachAccess(*node.inst, trace.entryOf(node), visit);
  }

  void declarePersistent() {
    auto &ranges = result.persistent;
    auto add = [&](const planfile::BufferRefT &b) {
      shadow.addPersistent(b.offset, b.offset + b.size);
      ranges.push_back({b.offset, b.offset + b.size});
    };
    for (const auto &state : stage.states)
      add(*state->buffer);
    for (const auto &scalar : stage.host_scalars)
      add(*scalar->buffer);
    std::sort(ranges.begin(), ranges.end());
    size_t kept = 0;
    for (const auto &range : ranges) {
      if (kept > 0 && range.first <= ranges[kept - 1].second)
        ranges[kept - 1].second = std::max(ranges[kept - 1].second, range.second);
      else
        ranges[kept++] = range;
    }
    ranges.resize(kept);
  }

  void read(uint32_t n, const ByteAccess &a) {
    auto [it, last] = shadow.isolate(a.begin, a.end);
    for (; it != last; ++it) {
      auto &readers = it->second.readers;
      if (readers.empty() || readers.back() != n)
        readers.push_back(n);
    }
  }

  void write(uint32_t n, const ByteAccess &a) {
    auto [it, last] = shadow.isolate(a.begin, a.end);
    for (; it != last; ++it)
      if (it->second.writer != n) // two operands of one instruction may overlap
        emit(it->first, it->second, n);
    shadow.overwrite(a.begin, a.end, n, a.lane, false);
  }

  void emit(uint64_t from, const ShadowCell &cell, uint32_t overwriter) {
    auto index = static_cast<uint32_t>(result.values.size());
    result.values.push_back({from, cell.end, cell.writer, overwriter,
                             static_cast<uint32_t>(cell.readers.size()), cell.persistent});
    for (uint32_t reader : cell.readers)
      result.reads[reader].push_back(index);
    if (cell.writer != kNoNode)
      result.writes[cell.writer].push_back(index);
    if (overwriter != kNoNode)
      result.overwrites[overwriter].push_back(index);
  }

  const planfile::Trace &trace;
  const planfile::StageT &stage;
  size_t begin;
  uint32_t count;
  StageValues &result;
  Shadow shadow;
};

} // namespace

StageValues::StageValues(const planfile::Trace &trace, uint32_t stage) {
  Builder(trace, stage, *this).run();
}
