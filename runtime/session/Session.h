// What programs that train and programs for inference share: who runs them, with
// which weights, and what they say at the start.
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
#include <memory>
#include <optional>
#include <ostream>
#include <streambuf>
#include <string>

namespace llmc::runtime {

struct RunContext {
  std::string folder;                  // of the program
  std::ostream *out = nullptr;         // start-up lines and progress
  bool terminal = false;               // `out` is one: progress rewrites its line
  const std::atomic<bool> *stop = nullptr; // set: stop after the present step
  support::Progress *progress = nullptr;   // over `out`; train() and infer() make it
  std::atomic<bool> *begun = nullptr;      // set by the run once it has something to lose
  std::string program;                     // its own file

  bool stopped() const { return stop && *stop; }
  void begin() const {
    if (begun)
      *begun = true;
  }
};

// A context whose output is as `options` ask: nothing but errors if quiet. Lines written
// to it go above the living one.
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

// How a run that did not fail has ended.
enum class Ended { Whole, Stopped };

support::Result<Weights> openWeights(const planfile::ProgramT &program, const Options &options,
                                     const RunContext &context);

// For `runs` steps.
support::Result<std::unique_ptr<Executor>> makeExecutor(const planfile::ProgramT &program,
                                                        const Kernels &kernels,
                                                        const Options &options, uint64_t runs);

// After a step: writes the trace as soon as there is all of it, since the rest may be
// broken off. A disk that is full does not end the run: it is said, and tried again at
// the end.
void keepTrace(std::ostream &out, Executor &executor);

// What the run leaves besides its results: counts (if it was `whole`, no run failed),
// trace, profile. All are tried.
support::Status finishRun(std::ostream &out, Executor &executor, const Options &options,
                          uint64_t runs, bool whole);

// Start-up lines: model and mesh; memory and weights.
void announceModel(std::ostream &out, const Executor &executor);
void announceMemory(std::ostream &out, const Executor &executor, const Weights &weights);

// What the host reads after a step: "loss", "grad_norm", "tokens". Nothing: the plan has no
// such output.
std::optional<double> readOutput(const Executor &executor, std::string_view name);

// 1234567 -> "1,234,567".
std::string grouped(uint64_t number);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_SESSION_SESSION_H
