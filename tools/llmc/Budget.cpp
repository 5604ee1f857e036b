// Implements llmc budget: what compute buys by the scaling laws, and how long it takes.
#include "lib/budget/BudgetText.h"
#include "lib/support/Json.h"
#include "tools/llmc/Commands.h"
#include "llvm/Support/raw_ostream.h"

namespace llmc {

int runBudget(const CommandLine &line) {
  std::vector<std::string> errors;
  auto answer = budget::answer(line.budget, errors);
  for (const std::string &error : errors)
    llvm::errs() << "llmc: error: " << error << "\n";
  if (!answer)
    return 1;
  if (line.json)
    llvm::outs() << support::jsonText(budget::answerJson(*answer), 2) << "\n";
  else
    llvm::outs() << budget::answerText(*answer);
  return 0;
}

} // namespace llmc
