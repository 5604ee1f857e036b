// Whatever readProgram() accepts, checkers, report and executor can lay out.
#include "Fuzz.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "lib/report/Explain.h"
#include "lib/report/Report.h"
#include "lib/support/Json.h"
#include "runtime/plan/StageProgram.h"

#include <cstdlib>

using namespace llmc;

// All of it, and the first names of each sort.
static void explain(const planfile::ProgramT &program) {
  std::vector<std::string> names = {"", "no such name"};
  report::PlanIndex book(program);
  for (size_t i = 0; i < 8; ++i) {
    if (i < book.traffic.size())
      names.push_back(book.traffic[i].name);
    if (i < program.sources.size())
      names.push_back(program.sources[i]->name);
    if (i < program.ops.size())
      names.push_back(program.ops[i]->op);
    if (i < program.ops.size() && !program.ops[i]->names.empty())
      names.push_back(program.ops[i]->names.front());
  }
  for (const std::string &name : names)
    if (auto answer = report::explainJson(program, name)) {
      support::jsonText(*answer);
      report::explainText(*answer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto program = planfile::readProgram(test::view(data, size));
  if (!program)
    return 0;
  planfile::formatFindings(planfile::checkAll(**program));
  support::jsonText(report::inspectJson(**program, size));
  report::inspectText(**program, size);
  explain(**program);
  for (uint32_t stage = 0; stage < (*program)->stages.size(); ++stage)
    runtime::StageProgram{**program, stage};
  // A plan that was read can be written and read again.
  if (!planfile::readProgram(planfile::writeProgram(**program)))
    std::abort();
  return 0;
}
