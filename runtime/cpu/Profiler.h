// Measures the steps of a StreamEngine for --profile and --trace. The test is
// test/runtime/TraceTest.cpp.
#ifndef LLMC_RUNTIME_CPU_PROFILER_H
#define LLMC_RUNTIME_CPU_PROFILER_H

#include "lib/support/Error.h"
#include "runtime/cpu/KernelRunner.h"
#include "runtime/cpu/LocalRanks.h"
#include "runtime/cpu/Observer.h"
#include "runtime/profile/Profile.h"
#include "runtime/profile/Trace.h"

#include <memory>
#include <optional>
#include <ostream>
#include <string>

namespace llmc::runtime {

// Fills a profile, a trace or both; borrows `ranks` and `kernels`.
class Profiler final : public Observer {
public:
  Profiler(const LocalRanks &ranks, const KernelRunner &kernels, bool profile,
           const std::optional<TraceOptions> &trace);

  void beginStep() override;
  void endStep(bool good) override;
  uint64_t beginAdvance() override;
  void endAdvance(unsigned worker, uint64_t start) override;
  Start beginTry(const Site &site) override;
  void endTry(const Site &site, const Start &start, bool ended) override;

  // Returns whether there is anything left to measure.
  bool active() const { return profile_ || trace_; }
  // Prints the profile, if there is one; measures the machine for it.
  void printProfile(std::ostream &out) const;
  const Profile *profile() const { return profile_.get(); }
  // Writes a pending trace if its last step has ended or `now` is set, which ends tracing.
  support::Status writeTrace(bool now);
  // Returns a line about the trace that was written, for the user; empty if none was.
  const std::string &traceNote() const { return traceNote_; }

private:
  // Skips the processor time with several workers: that of the process tells nothing about one.
  bool readsProcessor(const Op &op) const;
  void traceUnfinished();
  Profile::Work workOf(uint32_t stage, size_t op) const;

  const LocalRanks &ranks_;
  const KernelRunner &kernels_;
  std::unique_ptr<Profile> profile_;
  std::unique_ptr<Trace> trace_;
  std::string traceNote_;
  uint64_t stepStart_ = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_PROFILER_H
