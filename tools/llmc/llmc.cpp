// llmc: compiles a transformer into one program for every rank of a mesh.
#include "lib/support/Streams.h"
#include "tools/llmc/CommandLine.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Flags.h"
#include "tools/llmc/Interrupt.h"

#include "llvm/Support/raw_ostream.h"

#include <csignal>

using namespace llmc;

static int run(std::vector<std::string> arguments) {
  support::Problems problems;
  CommandLine line = parseCommandLine(std::move(arguments), problems);
  for (const std::string &problem : problems.messages)
    llvm::errs() << "llmc: error: " << problem << "\n";
  if (!problems.messages.empty())
    return problems.wrongUsage ? 2 : 1;
  if (line.help || line.version) {
    llvm::outs() << (line.help ? helpText(line.command) : "llmc " LLMC_VERSION "\n");
    return 0;
  }
  if (line.command == "verify")
    return runVerify(line);
  if (line.command == "plan")
    return runPlan(line);
  if (line.command == "explain")
    return runExplain(line);
  if (line.command == "compare")
    return runCompare(line);
  if (line.command == "trace")
    return runTrace(line);
  if (line.command == "budget")
    return runBudget(line);
  if (line.command == "report")
    return runReport(line);
  if (line.command == "calibrate")
    return runCalibrate(line);
  if (line.command == "inspect")
    return runInspect(line);
  removeTemporariesOnSignals();
  return runCompile(line);
}

int main(int argc, char **argv) {
  support::openStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a file that grows too large is an error of the write
  int status = run({argv + (argc > 0), argv + argc});
  // LLVM ends a process whose output was not written when its streams go.
  llvm::outs().flush();
  if (std::error_code why = llvm::outs().error()) {
    llvm::outs().clear_error();
    llvm::errs() << "llmc: error: standard output cannot be written: " << why.message() << "\n";
    status = status ? status : 1;
  }
  llvm::errs().clear_error();
  return status;
}
