// What ran when: every instruction of some steps, kept in memory until it is
// written as a trace (TraceWriter.h).
#ifndef LLMC_RUNTIME_PROFILE_TRACE_H
#define LLMC_RUNTIME_PROFILE_TRACE_H

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc::runtime {

// Nanoseconds of a clock that never goes back.
uint64_t nanoseconds();

struct TraceOptions {
  std::string path;
  uint64_t first = 1, last = 3; // steps, counted from 1
};

struct TraceEvent {
  uint64_t begin = 0, end = 0; // nanoseconds; from the first try to the end
  uint64_t number = 0;         // of the collective or message
  uint32_t rank = 0, step = 0;
  uint32_t entry = 0, op = 0; // of the stage's table; of StageProgram::ops
  uint32_t worker = 0;        // that ended it
  bool unfinished = false;    // the step failed before
};

class Trace {
public:
  // Never holds more than `most` events; what does not fit is counted.
  static constexpr uint64_t kMost = 1 << 19;
  Trace(TraceOptions options, unsigned workers, uint64_t most = kMost);

  void beginStep();                 // counts the steps
  bool on() const { return on_; }   // this step is asked for
  bool atLast() const { return step_ == options_.last; }
  uint64_t step() const { return step_; }
  uint64_t start() const { return start_; } // of the first traced step, in nanoseconds
  uint64_t steps() const;                   // traced so far

  // Only `worker` itself calls it.
  void add(unsigned worker, const TraceEvent &event);

  const TraceOptions &options() const { return options_; }
  // In no particular order.
  std::vector<TraceEvent> events() const;
  uint64_t dropped() const { return dropped_; }

private:
  static constexpr size_t kChunk = 1024; // events
  struct alignas(64) Buffer {
    std::vector<std::vector<TraceEvent>> chunks;
  };

  TraceOptions options_;
  std::vector<Buffer> buffers_; // by worker
  std::atomic<int64_t> free_;   // events that may still be kept
  std::atomic<uint64_t> dropped_{0};
  uint64_t step_ = 0, start_ = 0;
  bool on_ = false;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PROFILE_TRACE_H
