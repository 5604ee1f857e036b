// Records what ran when: every instruction of some steps, kept in memory until TraceWriter.h
// writes it. The test is test/runtime/TraceTest.cpp.
#ifndef LLMC_RUNTIME_PROFILE_TRACE_H
#define LLMC_RUNTIME_PROFILE_TRACE_H

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc::runtime {

// Holds the output file and the steps to trace.
struct TraceOptions {
  std::string path;
  uint64_t first = 1, last = 3; // steps from 1, both included
};

// Describes one execution of an instruction on one rank.
struct TraceEvent {
  uint64_t begin = 0, end = 0; // nanoseconds, from the first try to the end
  uint64_t number = 0;         // of the collective or message in its communicator or channel
  uint32_t rank = 0, step = 0;
  uint32_t entry = 0, op = 0; // index into the stage's table; into StageProgram::ops
  uint32_t worker = 0;        // that completed it
  bool unfinished = false;    // the step failed before it ended
};

// Collects the events of the traced steps, in one buffer a worker.
class Trace {
public:
  // Holds at most `most` events, reserved in chunks of 1,024; what does not fit is counted by
  // dropped().
  static constexpr uint64_t kMost = 1 << 19;
  Trace(TraceOptions options, unsigned workers, uint64_t most = kMost);

  // Holds events of one step that was simulated, with times from its start.
  Trace(std::string path, std::vector<TraceEvent> events);

  void beginStep();                 // counts the steps
  bool on() const { return on_; }   // this step is traced
  bool atLast() const { return step_ == options_.last; }
  uint64_t step() const { return step_; }
  uint64_t start() const { return start_; } // of the first traced step, in nanoseconds
  uint64_t steps() const;                   // traced so far

  // Adds an event to the buffer of `worker`, which alone may call this.
  void add(unsigned worker, const TraceEvent &event);

  const TraceOptions &options() const { return options_; }
  // Returns a copy of all events, in no particular order.
  std::vector<TraceEvent> events() const;
  uint64_t dropped() const { return dropped_; }

private:
  static constexpr size_t kChunk = 1024; // events reserved at once
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
