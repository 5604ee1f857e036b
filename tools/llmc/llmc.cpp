// llmc: compiles a transformer into one program for every rank of a mesh.
#include "tools/llmc/CommandLine.h"
#include "tools/llmc/Commands.h"

#include "llvm/Support/raw_ostream.h"

using namespace llmc;

int main(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && (arguments[0] == "--version" || arguments[0] == "-V")) {
    llvm::outs() << "llmc " << LLMC_VERSION << "\n";
    return 0;
  }
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    llvm::outs() << helpText("");
    return 0;
  }
  ParsedCommandLine parsed = parseCommandLine(arguments);
  const CommandLine &line = parsed.line;
  if (line.help) {
    llvm::outs() << helpText(line.command);
    return 0;
  }
  for (const char *later : {"plan", "trace"})
    if (line.command == later) {
      llvm::errs() << "llmc: error: " << later
                   << " is not built yet; llmc compile, inspect, explain and verify are\n";
      return 1;
    }
  if (!arguments.empty() && line.command != "compile" && line.command != "inspect" &&
      line.command != "explain" && line.command != "verify") {
    llvm::errs() << "llmc: error: unknown command '" << line.command
                 << "'; commands are compile, inspect, explain, verify\n";
    return 2;
  }
  for (const std::string &error : parsed.errors)
    llvm::errs() << "llmc: error: " << error << "\n";
  if (!parsed.errors.empty())
    return parsed.wrongUsage ? 2 : 1;
  if (line.command == "verify")
    return runVerify(line);
  if (line.command == "explain")
    return runExplain(line);
  return line.command == "compile" ? runCompile(line) : runInspect(line);
}
