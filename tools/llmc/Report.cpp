// Implements llmc report: writes a page about a compiled program.
#include "lib/page/Document.h"
#include "lib/page/Page.h"
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/support/Json.h"
#include "lib/support/OutputConflicts.h"
#include "lib/support/OutputFile.h"
#include "tools/llmc/ClusterOf.h"
#include "tools/llmc/Commands.h"
#include "tools/llmc/Files.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {

namespace {

int fail(const std::string &message) {
  llvm::errs() << "llmc: error: " << message << "\n";
  return 1;
}

// Checks that `output` replaces no file that the command reads; those without a path are not given.
support::Status checkOutput(std::vector<support::NamedFile> inputs, const support::NamedFile &output) {
  std::erase_if(inputs, [](const support::NamedFile &file) { return file.path.empty(); });
  return support::checkOutputConflicts(inputs, {output});
}

} // namespace

int runReport(const CommandLine &line) {
  std::optional<cost::Machine> machine = machineOfPrograms(line);
  if (!machine)
    return 1;
  const std::string &path = line.options.model, &output = line.options.output;
  if (!output.empty())
    if (auto status = checkOutput({{"the program", path}, {"--cluster", line.prices.cluster}, {"--measured", line.measured.trace},
                                   {"--metrics", line.measured.metrics}}, {"-o", output}); !status)
      return fail(status.message());
  auto carried = planfile::openEmbeddedProgram(path);
  if (!carried)
    return fail(carried.message() + "; report takes a program that llmc compile wrote");
  auto document = page::documentOf(*carried->program, *machine, line.measured);
  if (!document)
    return fail(document.message());
  if (!output.empty())
    if (auto status = support::writeFile(output, page::pageOf(*document)); !status)
      return fail("-o: " + status.message());
  if (line.json)
    llvm::outs() << support::jsonText(*document) << "\n";
  return 0;
}

int writePlanPage(const CommandLine &line, const nlohmann::json &prediction) {
  if (line.report.empty())
    return 0;
  if (auto status = checkOutput(inputsOf(line), {"--report", line.report}); !status)
    return fail(status.message());
  if (auto status = support::writeFile(line.report, page::pageOf(page::documentOf(prediction))); !status)
    return fail("--report: " + status.message());
  return 0;
}

} // namespace llmc
