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
#include "runtime/cpu/KernelRunner.h"
#include "runtime/cpu/LocalRanks.h"
#include "runtime/profile/Trace.h"

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace llmc::runtime {

// Writes one trace of `ranks`; all that it gets must outlive it.
class TraceWriter {
public:
  TraceWriter(const LocalRanks &ranks, const KernelRunner &kernels, const Trace &trace)
      : ranks_(ranks), kernels_(kernels), trace_(trace), program_(ranks.program()) {}

  // Writes the whole file and replaces an existing one of that name; fails if it cannot be
  // written.
  support::Status write();

private:
  using Json = support::OrderedJson;
  const Rank &rankOf(const TraceEvent &event) const { return ranks_[event.rank]; }
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
  std::string streamName(const Rank &rank, uint32_t stream) const;
  double time(uint64_t nanoseconds) const;
  void put(const Json &event);

  const LocalRanks &ranks_;
  const KernelRunner &kernels_;
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
