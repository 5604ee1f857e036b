// Implements llmc plan: predicts time and memory of a training step.
#include "tools/llmc/Commands.h"
#include "tools/llmc/Diagnostics.h"

#include "lib/pipeline/Pipeline.h"
#include "lib/predict/Predict.h"
#include "lib/predict/PredictionText.h"
#include "lib/support/Json.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {
using namespace mlir;

int runPlan(const CommandLine &line) {
  CompileOptions options = line.options;
  std::vector<std::string> errors;
  bool hasDataSize = line.has("--dp") || line.has("--mesh");
  std::optional<cost::Machine> machine = predict::resolve(line.prices, options, hasDataSize, errors);
  for (const std::string &error : errors)
    llvm::errs() << "llmc: error: " << error << "\n";
  if (!errors.empty() || !machine)
    return 1;
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, options.model, line.verbosity);
  auto prediction = predict::readPrediction(context, options, *machine, !line.has("--recompute") || options.recompute == Recompute::Auto);
  if (!prediction)
    return 1;
  predict::price(*prediction);
  if (line.json)
    llvm::outs() << support::jsonText(predict::predictionJson(*prediction), 2) << "\n";
  else
    llvm::outs() << predict::predictionText(*prediction);
  return 0;
}

} // namespace llmc
