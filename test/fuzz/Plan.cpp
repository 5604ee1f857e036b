// Whatever readProgram() accepts, checkers, report and executor can follow.
#include "Fuzz.h"
#include "lib/planfile/Check.h"
#include "lib/planfile/Program.h"
#include "lib/planfile/Report.h"

#include <cstdlib>

using namespace llmc;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto program = planfile::readProgram(test::view(data, size));
  if (!program)
    return 0;
  planfile::formatFindings(planfile::checkAll(**program));
  // What was read can be written and read again.
  if (!planfile::readProgram(planfile::writeProgram(**program)))
    std::abort();
  return 0;
}
