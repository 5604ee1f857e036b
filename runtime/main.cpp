// Runs a compiled program: `llmc compile` appends a payload to this executable.
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Retry.h"
#include "lib/support/Streams.h"
#include "runtime/infer/Inference.h"
#include "runtime/compute/Kernels.h"
#include "runtime/session/Options.h"
#include "runtime/session/Signals.h"
#include "runtime/train/Trainer.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <unistd.h>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::Status;
using support::text;

namespace {

// Returns the number in an environment variable; 0 if it is unset or not a number.
long numberIn(const char *name) {
  const char *value = std::getenv(name);
  return value ? std::atol(value) : 0;
}

// Fails if a launcher started this process as one of several ranks, since one process runs
// all ranks. Inside of an allocation of Slurm, where SLURM_NTASKS is set but no step was
// started, it is started once.
Status refuseLaunchers() {
  std::string found;
  for (const char *name :
       {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
        "JSM_NAMESPACE_SIZE", "WORLD_SIZE"})
    if (found.empty() && numberIn(name) > 1)
      found = text(name, "=", numberIn(name));
  bool step = std::getenv("SLURM_STEP_ID") || numberIn("SLURM_PROCID") > 0;
  if (found.empty() && step && !std::getenv("SLURM_STEP_NUM_TASKS") && numberIn("SLURM_NTASKS") > 1)
    found = text("SLURM_NTASKS=", numberIn("SLURM_NTASKS"));
  if (found.empty() && numberIn("PMIX_RANK") > 0)
    found = text("PMIX_RANK=", numberIn("PMIX_RANK"));
  if (found.empty())
    return support::ok();
  return error("started by a launcher (", found, "), which would make each process run the whole "
               "model: processes of one run are not built yet; start it once, it runs all ranks "
               "itself, or unset that variable if it was");
}

support::Result<Ended> runProgram(const Options &options, const std::string &self,
                                  const planfile::EmbeddedProgram &carried, StopSignals &signals) {
  if (Status s = refuseLaunchers(); !s)
    return s.takeError();
  std::vector<planfile::Finding> findings;
  if (options.checkPlan)
    findings = planfile::checkAll(*carried.program);
  if (options.checkPlan && carried.retry && findings.empty())
    findings = planfile::checkAll(*carried.retry);
  if (!findings.empty())
    return error("the plan does not hold together; compile it again:\n",
                 planfile::formatFindings(findings));
  support::Result<Kernels> kernels =
      Kernels::load(*carried.payload, *carried.program, options.cpu);
  if (!kernels)
    return kernels.takeError();
  support::Result<Kernels> retryKernels = Kernels(std::vector<KernelFunction>{});
  if (carried.retry)
    retryKernels = Kernels::load(*carried.payload, *carried.retry, options.cpu, planfile::kRetryKernelsPrefix);
  if (!retryKernels)
    return retryKernels.takeError();
  RunContext context;
  context.retry = carried.retry.get();
  context.retryKernels = &*retryKernels;
  context.folder = std::filesystem::path(self).parent_path().string();
  context.out = &std::cout;
  context.terminal = ::isatty(STDOUT_FILENO) != 0;
  context.stop = &signals.asked;
  context.begun = &signals.begun;
  context.program = self;
  bool infers = carried.program->mode == planfile::Mode::Infer;
  return (infers ? infer : train)(*carried.program, *kernels, options, context);
}

// Runs the program and turns exceptions into errors: libraries throw if memory is exhausted.
support::Result<Ended> runCatchingExceptions(const Options &options, const std::string &self,
                                const planfile::EmbeddedProgram &carried, StopSignals &signals) {
  try {
    return runProgram(options, self, carried, signals);
  } catch (const std::bad_alloc &) {
    return error("out of memory; use fewer ranks, a smaller micro-batch or a shorter sequence");
  } catch (const std::exception &e) {
    return error(e.what());
  }
}

} // namespace

int main(int argc, char **argv) {
  support::openStandardStreams();
  std::error_code code;
  std::string self = std::filesystem::read_symlink("/proc/self/exe", code).string();
  std::string name = std::filesystem::path(argc > 0 ? argv[0] : self).filename().string();
  // The payload decides which flags exist; --help and --version work without one.
  support::Result<planfile::EmbeddedProgram> carried = planfile::openEmbeddedProgram(self);
  planfile::Mode mode = carried ? carried->program->mode : planfile::Mode::Train;
  support::Problems problems;
  Options options = parseOptions({argv + (argc > 0), argv + argc}, mode, problems);
  for (const std::string &problem : problems.messages)
    std::cerr << name << ": error: " << problem << "\n";
  if (!problems.messages.empty())
    return 2;
  if (options.help) {
    std::cout << helpText(name, mode);
    if (carried && mode == planfile::Mode::Infer)
      std::cout << bindingsText(*carried->program);
    return 0;
  }
  if (options.version) {
    std::cout << name << ", runtime of llmc " LLMC_VERSION ", plan version "
              << planfile::kPlanVersion << "\n";
    return 0;
  }
  static StopSignals signals;
  signals.install(name);
  support::Result<Ended> ended = carried ? runCatchingExceptions(options, self, *carried, signals)
                                         : support::Result<Ended>(carried.takeError());
  if (!ended) {
    std::cout.flush();
    std::cerr << name << ": error: " << ended.message() << "\n";
    return 1;
  }
  return *ended == Ended::Stopped ? signals.exitStatus() : 0;
}
