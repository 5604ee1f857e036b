// Implements llmc explain: why a compiled program moves what it moves, how its ops are sharded, and on a cluster what
// that costs and what else could be chosen.
#include "lib/advise/Fixes.h"
#include "lib/advise/Prices.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/report/Explain.h"
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

// Returns the options of llmc compile with these flags; nullopt if they are refused.
std::optional<CompileOptions> optionsOf(const std::string &model, const advise::Flags &flags) {
  std::vector<std::string> words = {"compile", model, "-o", "out"};
  for (const auto &[name, value] : flags) {
    words.push_back(name);
    if (!value.empty())
      words.push_back(value);
  }
  support::Problems problems;
  CommandLine line = parseCommandLine(std::move(words), problems);
  bool isValid = problems.messages.empty() && !line.help && !line.version;
  return isValid ? std::optional(line.options) : std::nullopt;
}

// Adds to an answer what a step of the program takes on a cluster, and what else could be chosen. Returns an exit code.
int addCosts(nlohmann::json &answer, const CommandLine &line, const planfile::EmbeddedProgram &carried) {
  const std::string &path = line.options.model;
  std::optional<cost::Machine> machine = machineOfPrograms(line);
  if (!machine)
    return 1;
  auto request = advise::readRequest(*carried.payload);
  if (!request)
    return fail(path + ": " + request.message());
  auto forecast = simulate::forecast(*carried.program, *machine);
  if (!forecast)
    return fail(path + ": " + forecast.message());
  report::PlanIndex book(*carried.program);
  advise::addPrices(answer, book, *forecast, *machine);
  if (!*request) {
    answer["no_fixes"] = "the program does not record the flags of its compilation: it was made of IR, or by an older llmc";
    return 0;
  }
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  const std::string &model = carried.program->model->source_path;
  advise::Subject subject{model, path, **request, line.clusterFlags, line.prices,
                          [&](const advise::Flags &flags) { return optionsOf(model, flags); }};
  advise::addFixes(answer, context, book, subject);
  return 0;
}

} // namespace

int runExplain(const CommandLine &line) {
  const std::string &path = line.options.model;
  auto carried = planfile::openEmbeddedProgram(path);
  if (!carried)
    return fail(carried.message() + "; explain takes a program that llmc compile wrote");
  auto answer = report::explainJson(*carried->program, line.subject);
  if (!answer)
    return fail(path + ": " + answer.message());
  bool isPriced = !line.clusterFlags.empty();
  if (isPriced)
    if (int code = addCosts(*answer, line, *carried))
      return code;
  if (line.json)
    llvm::outs() << support::jsonText(*answer, 2) << "\n";
  else
    llvm::outs() << (isPriced ? advise::pricedText(*answer) : report::explainText(*answer));
  return 0;
}

} // namespace llmc
