// The program that `llmc compile` leaves: this executable with a payload.
#include "lib/planfile/Carried.h"
#include "lib/planfile/Check.h"
#include "runtime/Inference.h"
#include "runtime/Kernels.h"
#include "runtime/Options.h"
#include "runtime/Trainer.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>
#include <unistd.h>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::Status;

namespace {

std::atomic<bool> stopAsked{false};

// The first Ctrl-C ends the run after its step, the second at once. No thread that
// computes may take a signal: oneDNN's code turns the stack pointer to its own buffers,
// where a handler's frame would overwrite the heap. One thread waits for them instead;
// all others, made later, inherit that they are blocked.
void installSignals() {
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, SIGINT);
  ::sigaddset(&asked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);
  std::thread([asked] {
    int which = 0;
    ::sigwait(&asked, &which);
    stopAsked = true;
    ::sigwait(&asked, &which);
    ::signal(which, SIG_DFL);
    ::pthread_sigmask(SIG_UNBLOCK, &asked, nullptr);
    ::raise(which);
  }).detach();
}

// A launcher would start this program once a rank; here one process runs all.
Status refuseLaunchers() {
  for (const char *name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char *value = std::getenv(name);
    if (value && std::atoi(value) > 1)
      return error("started by a launcher (", name, "=", value,
                   "), which is not built yet; start it once, it runs all ranks itself");
  }
  return support::ok();
}

Status runProgram(const Options &options, const std::string &self, const planfile::Carried &carried) {
  if (Status s = refuseLaunchers(); !s)
    return s;
  std::vector<planfile::Finding> findings;
  if (options.checkPlan)
    findings = planfile::checkAll(*carried.program);
  if (!findings.empty())
    return error("the plan does not hold together; compile it again:\n",
                 planfile::formatFindings(findings));
  support::Result<Kernels> kernels =
      Kernels::load(*carried.payload, *carried.program, options.cpu);
  if (!kernels)
    return kernels.takeError();
  RunContext context;
  context.folder = std::filesystem::path(self).parent_path().string();
  context.out = &std::cout;
  context.terminal = ::isatty(STDOUT_FILENO) != 0;
  context.stop = &stopAsked;
  installSignals();
  bool infers = carried.program->mode == planfile::Mode::Infer;
  return (infers ? infer : train)(*carried.program, *kernels, options, context);
}

} // namespace

int main(int argc, char **argv) {
  std::error_code code;
  std::string self = std::filesystem::read_symlink("/proc/self/exe", code).string();
  std::string name = std::filesystem::path(argc > 0 ? argv[0] : self).filename().string();
  // What it carries decides what it takes; help and version are there without.
  support::Result<planfile::Carried> carried = planfile::openCarried(self);
  planfile::Mode mode = carried ? carried->program->mode : planfile::Mode::Train;
  support::Result<Options> options = parseOptions({argv + (argc > 0), argv + argc}, mode);
  if (!options) {
    std::cerr << name << ": error: " << options.message() << "\n";
    return 2;
  }
  if (options->help) {
    std::cout << helpText(name, mode);
    if (carried && mode == planfile::Mode::Infer)
      std::cout << bindingsText(*carried->program);
    return 0;
  }
  if (options->version) {
    std::cout << name << ", runtime of llmc " LLMC_VERSION ", plan version "
              << planfile::kPlanVersion << "\n";
    return 0;
  }
  Status status = carried ? runProgram(*options, self, *carried) : Status(carried.takeError());
  if (!status) {
    std::cout.flush();
    std::cerr << name << ": error: " << status.message() << "\n";
    return 1;
  }
  return 0;
}
