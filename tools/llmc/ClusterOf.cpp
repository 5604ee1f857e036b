#include "tools/llmc/ClusterOf.h"

#include "lib/predict/PriceOptions.h"
#include "llvm/Support/raw_ostream.h"

std::optional<llmc::cost::Machine> llmc::machineOfPrograms(const CommandLine &line) {
  std::vector<std::string> errors;
  std::optional<cost::Cluster> cluster = predict::clusterOf(line.prices, errors);
  for (const std::string &problem : errors)
    llvm::errs() << "llmc: error: " << problem << "\n";
  if (!cluster)
    return std::nullopt;
  cost::Machine machine;
  machine.cluster = std::move(*cluster);
  machine.choices.attention = predict::newestKernel(machine.cluster);
  return machine;
}
