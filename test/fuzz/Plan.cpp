// Whatever readProgram() accepts, checkers, report and executor can lay out.
#include "Fuzz.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "lib/report/Report.h"
#include "lib/support/Json.h"
#include "runtime/StageProgram.h"

#include <cstdlib>

using namespace llmc;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto program = planfile::readProgram(test::view(data, size));
  if (!program)
    return 0;
  planfile::formatFindings(planfile::checkAll(**program));
  support::jsonText(report::inspectJson(**program, size));
  report::inspectText(**program, size);
  for (uint32_t stage = 0; stage < (*program)->stages.size(); ++stage)
    runtime::StageProgram{**program, stage};
  // What was read can be written and read again.
  if (!planfile::readProgram(planfile::writeProgram(**program)))
    std::abort();
  return 0;
}
