// Predicts many runs many times, for fits of the constants: reads command lines of llmc plan from a file, a line each,
// and the model of each once; then for every line of constants on standard input (in the order of kConstants) prints a
// line with the seconds of all runs. With --parts prints what each run's time and memory are made of, once.
//
//   llmc-cost-rows RUNS.txt [--parts | --no-network]
//
// With --no-network links take no time.
#include "lib/cost/Constants.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/predict/Predict.h"
#include "lib/predict/PredictionText.h"
#include "lib/support/Json.h"
#include "tools/llmc/CommandLine.h"

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

using namespace llmc;

namespace {

std::vector<std::string> wordsOf(const std::string &line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;)
    words.push_back(word);
  return words;
}

std::optional<predict::Prediction> read(mlir::MLIRContext &context, const std::string &runLine) {
  support::Problems problems;
  CommandLine line = parseCommandLine(wordsOf(runLine), problems);
  std::vector<std::string> errors = problems.messages;
  CompileOptions options = line.options;
  auto machine = errors.empty() ? predict::resolve(line.prices, options, line.has("--dp"), errors) : std::nullopt;
  for (const std::string &error : errors)
    std::cerr << runLine << ": " << error << "\n";
  if (!machine)
    return std::nullopt;
  predict::RaisedModels models(context);
  return predict::readPrediction(models, options, *machine, !line.has("--recompute") || options.recompute == Recompute::Auto);
}

} // namespace

int main(int argc, char **argv) {
  std::ifstream in(argc > 1 ? argv[1] : "");
  if (!in) {
    std::cerr << "llmc-cost-rows: error: needs a file of command lines\n";
    return 2;
  }
  mlir::DialectRegistry registry;
  registerDialects(registry);
  std::vector<predict::Prediction> runs;
  for (std::string line; std::getline(in, line);) {
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    auto prediction = read(context, line);
    if (!prediction) {
      std::cerr << "llmc-cost-rows: error: no prediction for " << line << "\n";
      return 1;
    }
    runs.push_back(std::move(*prediction));
  }
  std::string flag = argc > 2 ? argv[2] : "";
  if (flag == "--no-network")
    for (predict::Prediction &run : runs) {
      cost::Cluster &c = run.machine.cluster;
      c.nvlink = c.nic = 1e18;
      c.nicLatency = c.linkLatency = 0;
      for (cost::CollectiveCurve *curve : {&c.allReduce, &c.allGather, &c.reduceScatter, &c.allToAll, &c.switchReduce})
        curve->start = curve->perRank = 0;
    }
  if (flag == "--parts") {
    for (predict::Prediction &run : runs) {
      predict::price(run);
      std::cout << support::jsonText(predict::predictionJson(run)) << "\n";
    }
    return 0;
  }
  std::cout << runs.size() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream numbers(line);
    cost::Constants constants;
    for (const cost::ConstantInfo &info : cost::kConstants)
      numbers >> constants.*info.field;
    std::ostringstream out;
    out.precision(9);
    for (predict::Prediction &run : runs) {
      run.machine.constants = constants;
      predict::price(run);
      out << run.time.step << ' ';
    }
    std::cout << out.str() << std::endl;
  }
  return 0;
}
