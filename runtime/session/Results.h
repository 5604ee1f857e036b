// The files that a run leaves: --dump, --save, --count-collectives (--trace is the
// executor's, see TraceWriter.h).
#ifndef LLMC_RUNTIME_SESSION_RESULTS_H
#define LLMC_RUNTIME_SESSION_RESULTS_H

#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "runtime/cpu/Executor.h"
#include "runtime/states/Gather.h"
#include "runtime/session/Options.h"

#include <map>
#include <string>
#include <vector>

namespace llmc::runtime {

// Gradients of the mean loss as the first step left them in the accumulators.
class FirstGradients {
public:
  support::Status capture(const Executor &executor);
  const std::map<size_t, LogicalTensor> &bySource() const { return bySource_; }

private:
  std::map<size_t, LogicalTensor> bySource_;
};

// Errors of several things that are all tried.
class Problems {
public:
  void add(const support::Status &status, const std::string &prefix = "");
  bool empty() const { return all_.empty(); }
  support::Status status() const; // one error of all

private:
  std::string all_;
};

// loss [steps], grad:NAME, param:NAME. Gradients only if a step was made. Tells `phase`
// the bytes.
support::Status writeDump(const std::string &path, const Executor &executor,
                          const std::vector<double> &losses, const FirstGradients &gradients,
                          support::Progress::Phase &phase);

// DIR/model.safetensors under the source's names, and DIR/config.json if the
// model had one. Of tensors whose names the source has lost, its metadata say in `source_layout`,
// a JSON object, where the model reads them. Tells `phase` the bytes.
support::Status saveModel(const std::string &folder, const Executor &executor,
                          support::Progress::Phase &phase);

// How many bytes of tensors saveModel() writes.
uint64_t savedBytes(const planfile::ProgramT &program);

// What ran, a step: collectives and sends in the words of `llmc inspect --json`.
support::Status writeCounts(const std::string &path, const Executor &executor, uint64_t steps);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_RESULTS_H
