// Provides what training and inference share: the output, the weights, the executor and the
// start-up lines. The test is test/runtime/TrainerTest.cpp.
#ifndef LLMC_RUNTIME_SESSION_SESSION_H
#define LLMC_RUNTIME_SESSION_SESSION_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "lib/support/Progress.h"
#include "runtime/cpu/Executor.h"
#include "runtime/compute/Kernels.h"
#include "runtime/session/Options.h"
#include "runtime/states/Weights.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>

namespace llmc::runtime {

// Holds what a run needs to know of its process.
struct RunContext {
  std::string folder;                  // of the program
  std::ostream *out = nullptr;         // start-up lines and progress
  bool terminal = false;               // `out` is a terminal: progress rewrites its line
  const std::atomic<bool> *stop = nullptr; // set: stop after the current step
  support::Progress *progress = nullptr;   // on `out`; train() and infer() make it
  std::atomic<bool> *begun = nullptr;      // set by the run after its first step
  std::string program;                     // path of its own file
  const planfile::ProgramT *retry = nullptr; // the plan for retries (lib/planfile/Retry.h); null: none
  const Kernels *retryKernels = nullptr;
  std::chrono::milliseconds patience = WeightsCheck::kPatience; // before the first step

  bool stopped() const { return stop && *stop; }
  void begin() const {
    if (begun)
      *begun = true;
  }
};

// Owns the output of a run, as verbose as `options` ask: nothing but errors if quiet. Lines
// written to it go above the progress line.
class Console {
public:
  Console(const RunContext &context, const Options &options);
  const RunContext &context() const { return context_; }

private:
  class Lines : public std::streambuf {
  public:
    explicit Lines(support::Progress &progress) : progress(progress) {}
    ~Lines() override;

  private:
    int_type overflow(int_type c) override;
    support::Progress &progress;
    std::string line;
  };
  support::Progress progress_;
  Lines lines_;
  std::ostream out_;
  RunContext context_;
};

// Tells how a run that did not fail has ended.
enum class Ended { Whole, Stopped };

// Opens the weights that `options` select; fails as Weights::open() does.
support::Result<Weights> openWeights(const planfile::ProgramT &program, const Options &options,
                                     const RunContext &context);

// Makes an executor for `runs` steps, over whose arenas `retry` may run too, and which shows its `routes`; fails if the trace options
// contradict them, or as Executor::create() does.
support::Result<std::unique_ptr<Executor>> makeExecutor(const planfile::ProgramT &program,
                                                        const Kernels &kernels,
                                                        const Options &options, uint64_t runs,
                                                        const planfile::ProgramT *retry = nullptr,
                                                        RoutesHook routes = {});
// Makes the executor of the plan for retries, over the arenas of `first`; fails as Executor::makeRetry() does.
support::Result<std::unique_ptr<Executor>> makeRetry(const Executor &first, const RunContext &context,
                                                     const Options &options);

// Writes the trace once its last step has ended, since later steps may be interrupted. A
// failure, such as a full disk, does not end the run: it is printed, and finishRun() tries
// again.
void writeDueTrace(std::ostream &out, Executor &executor);

// Writes what the run leaves besides its results: counts (if it was `whole`: no step failed),
// trace, profile. Attempts all of them and returns their errors in one.
support::Status finishRun(std::ostream &out, Executor &executor, const Options &options,
                          uint64_t runs, bool whole);

// Prints the start-up lines of the model and mesh; of the memory and weights.
void announceModel(std::ostream &out, const Executor &executor);
void announceMemory(std::ostream &out, const Executor &executor, const Weights &weights);

// Returns an output of the step, "loss", "grad_norm" or "tokens"; none if the plan does not
// have it.
std::optional<double> readOutput(const Executor &executor, std::string_view name);

// Fails if rows of the last run found no room at the ranks of their experts; names the budget that does.
support::Status checkRoom(const Executor &executor);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_SESSION_H
