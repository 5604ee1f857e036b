// Writes the files that a run leaves: --dump, --save, --count-collectives (TraceWriter.h
// writes --trace). Tests: test/runtime/TrainerTest.cpp; of counts,
// test/numerics/counts.py.
#ifndef LLMC_RUNTIME_SESSION_RESULTS_H
#define LLMC_RUNTIME_SESSION_RESULTS_H

#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "runtime/cpu/Executor.h"
#include "runtime/states/Gather.h"
#include "runtime/session/Options.h"
#include "runtime/session/RouteRecorder.h"

#include <map>
#include <string>
#include <vector>

namespace llmc::runtime {

// Holds the gradients of the mean loss, as the first step left them in the accumulators.
class FirstGradients {
public:
  // Gathers the accumulators, before another step or evaluation changes them.
  support::Status capture(const Executor &executor);
  const std::map<size_t, LogicalTensor> &bySource() const { return bySource_; }

private:
  std::map<size_t, LogicalTensor> bySource_;
};

// Collects the errors of several operations that are all attempted.
class Problems {
public:
  void add(const support::Status &status, const std::string &prefix = "");
  bool empty() const { return all_.empty(); }
  support::Status status() const; // all errors in one, joined by "; "

private:
  std::string all_;
};

// Writes tensors loss [steps], grad:NAME, param:NAME and route:ROUTER to a safetensors file; gradients and
// routes only if a step was made. Adds the bytes written to `phase`.
support::Status writeDump(const std::string &path, const Executor &executor,
                          const std::vector<double> &losses, const FirstGradients &gradients,
                          const RouteRecorder &routes, support::Progress::Phase &phase);

// Writes DIR/model.safetensors under the source's names, and DIR/config.json if the model had
// one. For tensors whose names the source has lost, the metadata entry `source_layout`, a
// JSON object, tells where the model reads them. Adds the bytes written to `phase`.
support::Status saveModel(const std::string &folder, const Executor &executor,
                          support::Progress::Phase &phase);

// Returns the bytes of the tensors that saveModel() writes.
uint64_t savedBytes(const planfile::ProgramT &program);

// Writes how many collectives and sends ran in each of `steps` steps, with the keys of `llmc inspect --json`, and
// of exchanges of rows how many `rows` went to other ranks in the whole run. Fails if the counts of the whole
// run are no multiples of `steps`.
support::Status writeCounts(const std::string &path, const Executor &executor, uint64_t steps);

// Writes what a profile measured, a row [stage, op, calls, nanoseconds] for each StageProgram::ops, for llmc calibrate.
support::Status writeProfileRows(const std::string &path, const Executor &executor);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_RESULTS_H
