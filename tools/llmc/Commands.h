// Declares the commands of `llmc`. Each returns the exit code and prints its messages: 0 for
// success, 1 for an error, and verify returns 3 if a check fails. Tested by
// test/numerics/refusals.py and test/hostile.
#ifndef LLMC_TOOLS_LLMC_COMMANDS_H
#define LLMC_TOOLS_LLMC_COMMANDS_H

#include "tools/llmc/CommandLine.h"

#include <nlohmann/json.hpp>

namespace llmc {

int runCompile(const CommandLine &line);
int runInspect(const CommandLine &line);
int runExplain(const CommandLine &line);
int runCompare(const CommandLine &line);
int runVerify(const CommandLine &line);
int runPlan(const CommandLine &line);
int runTrace(const CommandLine &line);
int runReport(const CommandLine &line);
int runCalibrate(const CommandLine &line);
int runBudget(const CommandLine &line);

// Writes the page of llmc plan --report, from the object of its --json; does nothing where it is not asked for.
int writePlanPage(const CommandLine &line, const nlohmann::json &prediction);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_COMMANDS_H
