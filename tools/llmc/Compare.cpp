// Implements llmc compare: what differs between two compiled programs, and what that costs on a cluster.
#include "lib/advise/Comparison.h"
#include "lib/support/Json.h"
#include "tools/llmc/ClusterOf.h"
#include "tools/llmc/Commands.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {
namespace {

int fail(const std::string &message) {
  llvm::errs() << "llmc: error: " << message << "\n";
  return 1;
}

// Sets what a step of the program takes. Returns an exit code.
int simulateStep(advise::Side &side, const cost::Machine &machine) {
  auto forecast = simulate::forecast(*side.carried.program, machine);
  if (!forecast)
    return fail(side.path + ": " + forecast.message() + "; leave out --gpu and --cluster to compare the plans alone");
  side.forecast = std::move(*forecast);
  return 0;
}

} // namespace

int runCompare(const CommandLine &line) {
  std::optional<cost::Machine> machine;
  if (!line.clusterFlags.empty()) {
    machine = machineOfPrograms(line);
    if (!machine)
      return 1;
  }
  auto first = planfile::openEmbeddedProgram(line.options.model), second = planfile::openEmbeddedProgram(line.other);
  for (auto *carried : {&first, &second})
    if (!*carried)
      return fail(carried->message() + "; compare takes two programs that llmc compile wrote");
  advise::Side sides[] = {{line.options.model, *first, {}}, {line.other, *second, {}}};
  for (advise::Side &side : sides)
    if (machine)
      if (int code = simulateStep(side, *machine))
        return code;
  nlohmann::json answer = advise::comparisonJson(sides[0], sides[1], machine ? &machine->cluster : nullptr);
  if (line.json)
    llvm::outs() << support::jsonText(answer, 2) << "\n";
  else
    llvm::outs() << advise::comparisonText(answer);
  return 0;
}

} // namespace llmc
