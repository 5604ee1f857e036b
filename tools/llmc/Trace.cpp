// Implements llmc trace: simulates a step of a compiled program, and writes what runs when.
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/simulate/Forecast.h"
#include "lib/support/Json.h"
#include "lib/support/OutputConflicts.h"
#include "tools/llmc/ClusterOf.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Files.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {

int runTrace(const CommandLine &line) {
  auto fail = [](const std::string &message) {
    llvm::errs() << "llmc: error: " << message << "\n";
    return 1;
  };
  std::optional<cost::Machine> machine = machineOfPrograms(line);
  if (!machine)
    return 1;
  const std::string &path = line.options.model, &output = line.options.output;
  if (!output.empty()) {
    std::vector<support::NamedFile> inputs = {{"the program", path}, {"--cluster", line.prices.cluster}};
    if (auto status = support::checkOutputConflicts(inputs, {{"-o", output}}); !status)
      return fail(status.message());
  }
  auto carried = planfile::openEmbeddedProgram(path);
  if (!carried)
    return fail(carried.message() + "; trace takes a program that llmc compile wrote");
  auto forecast = simulate::forecast(*carried->program, *machine);
  if (!forecast)
    return fail(path + ": " + forecast.message());
  if (!output.empty())
    if (auto status = simulate::writeTrace(*carried->program, *forecast, output); !status)
      return fail("-o: " + status.message());
  if (line.json)
    llvm::outs() << support::jsonText(simulate::forecastJson(*forecast), 2) << "\n";
  else
    llvm::outs() << simulate::forecastText(*forecast, *machine);
  return 0;
}

} // namespace llmc
