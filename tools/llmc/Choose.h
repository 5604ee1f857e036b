// Finds the choices that a command line leaves open. Tested by test/numerics/search.py.
#ifndef LLMC_TOOLS_LLMC_CHOOSE_H
#define LLMC_TOOLS_LLMC_CHOOSE_H

#include "lib/search/Levers.h"
#include "lib/search/Search.h"
#include "tools/llmc/CommandLine.h"

#include <optional>
#include <string>
#include <vector>

namespace llmc {

// Limits the ranks that one machine's processors are asked to run.
constexpr int64_t kMostRanks = 256;

// Holds what is asked for, the machine that it is asked for, and the plans that were found.
struct Choice {
  search::Request request;
  cost::Machine machine;
  search::Result result;
  std::vector<search::Lever> levers; // where nothing fits
};

// Returns the request of a command line that searches, and the machine; nullopt after adding errors.
std::optional<Choice> requestOf(const CommandLine &line, std::vector<std::string> &errors);

// Finds up to `count` plans of a request. False after diagnostics of the model.
bool findPlans(predict::RaisedModels &models, const CommandLine &line, Choice &choice, size_t count);

// Simulates a plan beside its table; of one that compile refuses, the prediction says why.
void simulateOne(mlir::MLIRContext &context, const CompileOptions &options, predict::Prediction &prediction);

// Returns why no plan was found.
std::string whyNothingFits(const Choice &choice);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_CHOOSE_H
