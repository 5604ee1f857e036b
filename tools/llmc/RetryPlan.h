// Compiles the plan that runs a step again whose rows of experts found no room, beside the first one. Tested by
// test/numerics/experts.py ("retries on").
#ifndef LLMC_TOOLS_LLMC_RETRYPLAN_H
#define LLMC_TOOLS_LLMC_RETRYPLAN_H

#include "lib/options/Options.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "lib/support/Progress.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/6-emit/Emit.h"

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <vector>

namespace llmc {

struct RetryPlan {
  planfile::ProgramT program;
  std::vector<KernelObject> kernels;
  std::vector<planfile::Finding> findings; // what checkAll() has against the program
};

// Compiles from construction on, in a thread and an MLIR context of its own: the two plans share nothing but the
// model, and a large one takes seconds.
class RetryCompilation {
public:
  // Copies `raised`, the model after phase raise. `options` are those of the first plan.
  RetryCompilation(mlir::ModuleOp raised, const CompileOptions &options, support::Progress &progress);
  RetryCompilation(const RetryCompilation &) = delete;
  ~RetryCompilation(); // gives up between two phases

  // Waits for the plan. Returns null after diagnostics in `context`, in which a plan that fails is compiled once more.
  RetryPlan *wait(mlir::MLIRContext &context);

private:
  std::optional<RetryPlan> compile(mlir::MLIRContext &context) const;
  std::optional<RetryPlan> compileAlone() const;

  std::string model; // bytecode, which crosses from one context to another
  CompileOptions options;
  support::Progress &progress;
  std::atomic<bool> isWanted = true;
  std::future<std::optional<RetryPlan>> running;
  std::optional<RetryPlan> plan;
};

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_RETRYPLAN_H
