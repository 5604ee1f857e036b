// Declares the commands of `llmc`, and their flags in one table. Tested by
// test/numerics/refusals.py (command lines).
#ifndef LLMC_TOOLS_LLMC_FLAGS_H
#define LLMC_TOOLS_LLMC_FLAGS_H

#include "lib/support/FlagTable.h"
#include "tools/llmc/CommandLine.h"

#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// Names what takes a flag, joined by |: commands, llmc without one, verify with --draws.
enum Modes : unsigned {
  kCompile = 1, kInspect = 2, kExplain = 4, kVerify = 8, kNoCommand = 16, kDraws = 32, kPlan = 64,
  kTrace = 128, kCalibrate = 256, kBudget = 512, kReport = 1024, kCompare = 2048
};

// Bounds every count: a plan counts rows in 32 bits.
inline constexpr int64_t kMost = int64_t(1) << 31;

// Returns the table of all flags.
const support::FlagTable<CommandLine> &flagTable();

// Describes a command for the parser and for --help.
struct Command {
  const char *name;
  unsigned bit; // 0: not built yet
  const char *usage, *about;
  const char *line; // of the list of commands
};
const std::vector<Command> &commands();
const Command *findCommand(std::string_view name);
// Returns "compile, verify".
std::string namesOf(unsigned modes);

// Returns the choices that have one built value each, as "zero 0, precision fp32, ...".
std::string builtChoices();

// Returns the text of --help for a command, or for all of them if empty.
std::string helpText(const std::string &command);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_FLAGS_H
