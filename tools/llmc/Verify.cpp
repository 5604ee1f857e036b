// Implements llmc verify: shows that a plan equals its model.
#include "tools/llmc/Commands.h"
#include "tools/llmc/Diagnostics.h"

#include "lib/pipeline/Dump.h"
#include "lib/pipeline/Pipeline.h"
#include "lib/support/Json.h"
#include "lib/verify/Draws.h"
#include "lib/verify/mutation/Mutation.h"
#include "lib/verify/Verify.h"
#include "llvm/Support/raw_ostream.h"
#include <iostream>

namespace llmc {
using namespace mlir;

// Fails if flags contradict a dump, which records its options and is verified at its own
// phase.
static LogicalResult checkDump(MLIRContext &context, const CommandLine &line) {
  FailureOr<Dump> dump = readDump(context, line.options.model);
  if (failed(dump))
    return failure();
  std::vector<std::string> problems = conflictingFlags(line.given, line.options, dump->options);
  if (line.after)
    problems.push_back("--after: IR is looked at where it stands, after phase " +
                       std::string(toString(dump->phase)) + "; leave it out");
  if (line.twin == CommandLine::Twin::On)
    problems.push_back("--twin on: IR stands for itself; verify the model");
  for (const std::string &problem : problems)
    llvm::errs() << "llmc: error: " << line.options.model << ": " << problem << "\n";
  return success(problems.empty());
}

int runVerify(const CommandLine &line) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  TerminalDiagnostics diagnostics(&context, line.options.model, line.verbosity);
  if (isDump(line.options.model) && failed(checkDump(context, line)))
    return 1;
  verify::VerifyOptions options;
  options.compile = line.options;
  options.after = line.after;
  options.twin = line.twin == CommandLine::Twin::On    ? verify::ScaledDownMode::On
                 : line.twin == CommandLine::Twin::Off ? verify::ScaledDownMode::Off
                                                       : verify::ScaledDownMode::Auto;
  options.interleavings = static_cast<unsigned>(line.interleavings);
  options.oracle = line.oracle;
  if (line.seed)
    options.seed = *line.seed;
  support::Progress progress(std::cerr, support::isTerminal(2), line.verbosity);
  options.progress = options.compile.progress = &progress;
  std::string log;
  FailureOr<verify::Report> report =
      line.draws ? verify::verifyDraws(context, options.seed, line.draws, line.options.infer, log,
                                        &progress)
                 : verify::verifyModel(context, options);
  if (failed(report))
    return 1;
  if (line.mutate && report->twin.is_object()) {
    llvm::errs() << "llmc: error: " << line.options.model
                 << ": --mutate runs the plan itself, which does not fit here; mutate a smaller "
                    "model on the same mesh\n";
    return 1;
  }
  if (line.mutate) {
    verify::MutationOptions mutation;
    mutation.progress = &progress;
    mutation.without = line.without;
    mutation.most = static_cast<uint64_t>(line.mutants);
    auto mutants = verify::mutateModel(context, line.options, options.seed, mutation);
    if (failed(mutants))
      return 1;
    report->mutants = std::move(*mutants);
  }
  if (line.json)
    llvm::outs() << support::jsonText(report->json(), 2) << "\n";
  else if (line.verbosity != support::Verbosity::Quiet || !report->passed())
    llvm::outs() << log << report->text()
                 << (line.mutate ? verify::mutationText(report->mutants) : "");
  return report->passed() ? 0 : 3;
}

} // namespace llmc
