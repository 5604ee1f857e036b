// Writes a Trace in the format of chrome://tracing and Perfetto: a process for each rank, a
// row for each stream, an arrow from each send to its receive and from the last member to
// arrive at a collective to the others. The test is test/runtime/TraceTest.cpp.
//
// Times are microseconds since the first traced step began. An instruction lasts from its
// first try to its end, so a wait, or a collective whose other members are late, spans the
// time for which it holds its stream.
#ifndef LLMC_RUNTIME_CPU_TRACEWRITER_H
#define LLMC_RUNTIME_CPU_TRACEWRITER_H

#include "lib/support/Error.h"
#include "lib/support/Json.h"
#include "lib/support/OutputFile.h"
#include "runtime/plan/StageProgram.h"
#include "runtime/profile/Trace.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace llmc::runtime {

// Tells what a trace is of: a run, or a simulation (lib/simulate).
struct TraceSubject {
  const planfile::ProgramT &program;
  const std::vector<std::unique_ptr<StageProgram>> &stages;
  unsigned workers, threads; // that drive ranks; of each
  std::function<bool(uint32_t stage, uint32_t product)> byLibrary;
};

// Writes one trace; all that it gets must outlive it.
class TraceWriter {
public:
  TraceWriter(TraceSubject subject, const Trace &trace)
      : subject_(std::move(subject)), trace_(trace), program_(subject_.program) {}

  // Writes the whole file and replaces an existing one of that name; fails if it cannot be
  // written.
  support::Status write();

private:
  using Json = support::OrderedJson;
  const StageProgram &stageOf(uint32_t rank) const { return *subject_.stages[planfile::stageOf(program_, rank)]; }
  const Op &opOf(const TraceEvent &event) const { return stageOf(event.rank).ops[event.op]; }
  // Returns the message of an event, a Send or Recv, and the rank at its other end.
  planfile::Message messageOf(const TraceEvent &event) const;
  uint32_t peerOf(const TraceEvent &event) const { return planfile::peerOf(*program_.mesh, event.rank, messageOf(event)); }
  std::vector<uint32_t> groupOf(const TraceEvent &event) const;

  void metadata();
  void instructions();
  void instruction(const TraceEvent &event);
  void describe(const TraceEvent &event, std::string &name, Json &args) const;
  void entries(std::span<const TraceEvent> row);
  void arrows();
  void messageArrows();
  void collectiveArrows();
  void arrow(const TraceEvent &from, const TraceEvent &to, const char *kind);
  std::string streamName(const StageProgram &stage, uint32_t stream) const;
  double time(uint64_t nanoseconds) const;
  void put(const Json &event);

  TraceSubject subject_;
  const Trace &trace_;
  const planfile::ProgramT &program_;
  std::vector<TraceEvent> events_; // sorted by rank, stream, time
  support::OutputFile *file_ = nullptr;
  std::string buffer_;
  bool first_ = true;
  uint64_t arrows_ = 0;
  support::Status status_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_TRACEWRITER_H
