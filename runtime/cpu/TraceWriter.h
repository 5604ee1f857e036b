// Writes a Trace in the format of chrome://tracing and Perfetto: a process a
// rank, a row a stream, an arrow from each send to its receive and from the
// member of a collective that came last to the others.
//
// Times are microseconds since the first traced step began. An instruction lasts
// from the first try to its end, so a wait, or a collective whose other members
// are late, shows as long as it holds its stream.
#ifndef LLMC_RUNTIME_CPU_TRACEWRITER_H
#define LLMC_RUNTIME_CPU_TRACEWRITER_H

#include "lib/support/Error.h"
#include "lib/support/Json.h"
#include "lib/support/OutputFile.h"
#include "runtime/cpu/Executor.h"

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace llmc::runtime {

class TraceWriter {
public:
  TraceWriter(const Executor &executor, const Trace &trace)
      : executor_(executor), trace_(trace), program_(executor.program_) {}

  // The whole file, in place of one of that name.
  support::Status write();

private:
  using Json = support::OrderedJson;
  const Executor::Rank &rankOf(const TraceEvent &event) const {
    return *executor_.ranks_[event.rank];
  }
  const Op &opOf(const TraceEvent &event) const { return rankOf(event).program->ops[event.op]; }

  void metadata();
  void instructions();
  void instruction(const TraceEvent &event);
  void describe(const TraceEvent &event, std::string &name, Json &args) const;
  void entries(std::span<const TraceEvent> row);
  void arrows();
  void messageArrows();
  void collectiveArrows();
  void arrow(const TraceEvent &from, const TraceEvent &to, const char *kind);
  std::string streamName(const Executor::Rank &rank, uint32_t stream) const;
  double time(uint64_t nanoseconds) const;
  void put(const Json &event);

  const Executor &executor_;
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
