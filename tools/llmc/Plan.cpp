// Implements llmc plan: predicts time and memory of a training step.
#include "tools/llmc/Choose.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Diagnostics.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/predict/Predict.h"
#include "lib/predict/PredictionText.h"
#include "lib/predict/SimulatePlan.h"
#include "lib/search/ResultText.h"
#include "lib/support/Json.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {
using namespace mlir;
namespace {

// Tells why a machine that was measured cannot take these choices; empty if it can.
std::string whyNotHere(const cost::Machine &machine, const CompileOptions &options) {
  const std::string &name = machine.cluster.name;
  if (machine.choices.software != cost::Profile::Llmc)
    return "--software: " + name + " was measured with programs of llmc; leave it out, or give a --gpu";
  if (options.ranks() > kMostRanks)
    return name + " has " + std::to_string(machine.cluster.host->cores) + " cores, and the mesh " +
           std::to_string(options.ranks()) + " ranks: use " + std::to_string(kMostRanks) + " or fewer, or give a --gpu";
  return "";
}

// Prints what was found, or why there is nothing.
int printChoice(const CommandLine &line, const Choice &choice) {
  const search::Result &result = choice.result;
  if (!result.found.empty()) {
    nlohmann::json all = search::resultJson(result, choice.request);
    if (int status = writePlanPage(line, all))
      return status;
    if (line.json)
      llvm::outs() << support::jsonText(all, 2) << "\n";
    else
      llvm::outs() << search::resultText(result, choice.request);
    return 0;
  }
  if (result.nearest)
    if (int status = writePlanPage(line, predict::predictionJson(result.nearest->prediction)))
      return status;
  if (line.json && result.nearest) {
    nlohmann::json all = search::lackJson(result.nearest->prediction, choice.levers);
    for (const search::Rejected &rejected : result.rejected)
      all["rejected"].push_back({{"mesh", predict::meshJson(rejected.mesh)}, {"reason", rejected.reason}});
    all["search"] = {{"candidates", result.candidates}, {"bounded", result.bounded}, {"priced", result.priced}, {"tables", result.tables}, {"seconds", result.seconds}};
    llvm::outs() << support::jsonText(all, 2) << "\n";
  } else if (result.nearest) {
    llvm::outs() << predict::predictionText(result.nearest->prediction) << search::leversText(choice.levers);
  }
  llvm::errs() << "llmc: error: " << line.options.model << ": " << whyNothingFits(choice) << "\n";
  return 1;
}

} // namespace

int runPlan(const CommandLine &line) {
  CompileOptions options = line.options;
  std::vector<std::string> errors;
  std::optional<Choice> choice;
  std::optional<cost::Machine> machine;
  if (line.searches())
    choice = requestOf(line, errors);
  else
    machine = predict::resolve(line.prices, options, line.has("--dp") || line.has("--mesh"), errors);
  if (machine && machine->cluster.host)
    if (std::string why = whyNotHere(*machine, options); !why.empty())
      errors.push_back(why);
  for (const std::string &error : errors)
    llvm::errs() << "llmc: error: " << error << "\n";
  if (!errors.empty() || (!machine && !choice))
    return 1;
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, options.model, line.verbosity);
  predict::RaisedModels models(context);
  constexpr size_t found = 5; // the best and four that differ from it
  if (choice)
    return findPlans(models, line, *choice, found) ? printChoice(line, *choice) : 1;
  auto prediction = predict::readPrediction(models, options, *machine, !line.has("--recompute") || options.recompute == Recompute::Auto);
  if (!prediction)
    return 1;
  if (!predict::price(*prediction))
    return 1;
  if (prediction->machine.cluster.host && failed(predict::simulatePlan(context, options, *prediction)))
    return 1;
  // A run of another stack is predicted as it is: nothing is chosen.
  std::string lack = predict::lackOfMemory(*prediction);
  if (!lack.empty() && prediction->machine.choices.software == cost::Profile::Llmc && !prediction->machine.cluster.host) {
    if (int status = writePlanPage(line, predict::predictionJson(*prediction)))
      return status;
    search::Readers readers(models);
    std::vector<search::Lever> levers = search::leversOf(readers, {options, line.prices, {}, options.ranks()}, *machine, *prediction);
    if (line.json)
      llvm::outs() << support::jsonText(search::lackJson(*prediction, levers), 2) << "\n";
    else
      llvm::outs() << predict::predictionText(*prediction) << search::leversText(levers);
    llvm::errs() << "llmc: error: " << line.options.model << ": does not fit: " << lack
                 << (levers.empty() ? "\n" : "; see the levers\n");
    return 1;
  }
  if (!prediction->machine.cluster.host && !predict::chooseSimulated({&*prediction}, line.simulating).empty())
    simulateOne(context, options, *prediction);
  if (int status = writePlanPage(line, predict::predictionJson(*prediction)))
    return status;
  if (line.json)
    llvm::outs() << support::jsonText(predict::predictionJson(*prediction), 2) << "\n";
  else
    llvm::outs() << predict::predictionText(*prediction);
  return 0;
}

} // namespace llmc
