// Implements llmc explain: why a compiled program moves what it moves, and how its ops are
// sharded.
#include "lib/report/Explain.h"
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/support/Json.h"
#include "tools/llmc/Commands.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {

int runExplain(const CommandLine &line) {
  auto fail = [&](const std::string &message) {
    llvm::errs() << "llmc: error: " << message << "\n";
    return 1;
  };
  const std::string &path = line.options.model;
  auto carried = planfile::openEmbeddedProgram(path);
  if (!carried)
    return fail(carried.message() + "; explain takes a program that llmc compile wrote");
  auto answer = report::explainJson(*carried->program, line.subject);
  if (!answer)
    return fail(path + ": " + answer.message());
  if (line.json)
    llvm::outs() << support::jsonText(*answer, 2) << "\n";
  else
    llvm::outs() << report::explainText(*answer);
  return 0;
}

} // namespace llmc
