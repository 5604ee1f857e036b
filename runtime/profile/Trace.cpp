#include "runtime/profile/Trace.h"

#include "runtime/compute/Clock.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;

Trace::Trace(TraceOptions options, unsigned workers, uint64_t most)
    : options_(std::move(options)), buffers_(workers), free_(static_cast<int64_t>(most)) {}

Trace::Trace(std::string path, std::vector<TraceEvent> events)
    : options_{std::move(path), 1, 1}, buffers_(1), free_(0), step_(1) {
  buffers_[0].chunks.push_back(std::move(events));
}

void Trace::beginStep() {
  ++step_;
  on_ = step_ >= options_.first && step_ <= options_.last;
  if (on_ && start_ == 0)
    start_ = nanoseconds();
}

uint64_t Trace::steps() const {
  uint64_t end = std::min(step_, options_.last);
  return end < options_.first ? 0 : end - options_.first + 1;
}

void Trace::add(unsigned worker, const TraceEvent &event) {
  auto &chunks = buffers_[worker].chunks;
  if (chunks.empty() || chunks.back().size() == kChunk) {
    constexpr auto size = static_cast<int64_t>(kChunk);
    if (free_.fetch_sub(size, std::memory_order_relaxed) < size) {
      free_.fetch_add(size, std::memory_order_relaxed);
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    chunks.emplace_back().reserve(kChunk);
  }
  chunks.back().push_back(event);
}

std::vector<TraceEvent> Trace::events() const {
  std::vector<TraceEvent> all;
  for (const Buffer &buffer : buffers_)
    for (const auto &chunk : buffer.chunks)
      all.insert(all.end(), chunk.begin(), chunk.end());
  return all;
}
