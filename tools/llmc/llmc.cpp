// Runs llmc, which compiles a transformer into one program for every rank of a mesh.
#include "lib/support/Streams.h"
#include "tools/llmc/CommandLine.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Flags.h"
#include "tools/llmc/Interrupt.h"

#include "llvm/Support/raw_ostream.h"

#include <csignal>

using namespace llmc;

static int run(std::vector<std::string> arguments) {
  // Treats "llmc --help compile" and "llmc help compile" as "llmc compile --help".
  if (arguments.size() == 2 &&
      (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help"))
    arguments = {arguments[1], "--help"};
  std::string first = arguments.size() == 1 ? arguments[0] : "";
  if (first == "--version" || first == "-V") {
    llvm::outs() << "llmc " << LLMC_VERSION << "\n";
    return 0;
  }
  if (first == "--help" || first == "-h" || first == "help") {
    llvm::outs() << helpText("");
    return 0;
  }
  ParsedCommandLine parsed = parseCommandLine(arguments);
  const CommandLine &line = parsed.line;
  if (line.help) {
    llvm::outs() << helpText(line.command);
    return 0;
  }
  for (const std::string &error : parsed.errors)
    llvm::errs() << "llmc: error: " << error << "\n";
  if (!parsed.errors.empty())
    return parsed.wrongUsage ? 2 : 1;
  if (line.command == "verify")
    return runVerify(line);
  if (line.command == "explain")
    return runExplain(line);
  if (line.command == "inspect")
    return runInspect(line);
  removeTemporariesOnSignals();
  return runCompile(line);
}

int main(int argc, char **argv) {
  support::openStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // writing a file that grows too large returns an error
  int status = run({argv + (argc > 0), argv + argc});
  // Checks the output here, since LLVM ends a process with a fatal error if a stream that
  // failed is destroyed.
  llvm::outs().flush();
  if (std::error_code why = llvm::outs().error()) {
    llvm::outs().clear_error();
    llvm::errs() << "llmc: error: standard output cannot be written: " << why.message() << "\n";
    status = status ? status : 1;
  }
  llvm::errs().clear_error();
  return status;
}
