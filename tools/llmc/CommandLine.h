// Parses the command line of `llmc`, whose names are fixed so that scripts can rely on them.
// The test is test/numerics/refusals.py.
#ifndef LLMC_TOOLS_LLMC_COMMANDLINE_H
#define LLMC_TOOLS_LLMC_COMMANDLINE_H

#include "lib/pipeline/Options.h"
#include "lib/pipeline/Phases.h"
#include "lib/support/Progress.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// Holds the parsed values of all flags.
struct CommandLine {
  std::string command;
  CompileOptions options;
  std::vector<std::string> given; // flags by their long names, in order
  std::optional<Phase> compileFrom; // --compile-from; none: the phase that the IR records
  Phase compileTo = Phase::Emit;
  bool json = false;
  bool help = false;
  support::Verbosity verbosity = support::Verbosity::Normal; // -q, -v
  // Returns whether the flag was given.
  bool has(std::string_view flag) const;
  std::string subject; // explain: a collective, node, parameter or kind of op; empty: all
  // Holds the flags of verify, from here on.
  std::optional<Phase> after;  // --after: verify at this phase boundary alone
  std::optional<int64_t> seed; // of rows and drawn weights, and of --draws
  int64_t draws = 0;           // --draws: number of drawn models, instead of MODEL
  int64_t interleavings = 0;   // --interleavings: number of runs in drawn orders
  std::string oracle;          // --oracle: a Python interpreter that runs the model's own file
  bool mutate = false;         // --mutate
  enum class Twin { Auto, On, Off };
  Twin twin = Twin::Auto;      // --twin: verify a scaled-down model instead of the plan
  int64_t mutants = 0;         // --mutants: limit for each kind of fault; 0: all
  std::string without; // --without: a static checker that --mutate skips
};

// Holds a parsed command line. All problems found are in `errors`; `wrongUsage` tells a
// malformed command line (exit 2) from a choice that is not valid or not built (exit 1).
struct ParsedCommandLine {
  CommandLine line;
  std::vector<std::string> errors;
  bool wrongUsage = false;
};
// Parses the arguments after the program's name; does not look at files.
ParsedCommandLine parseCommandLine(const std::vector<std::string> &arguments);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_COMMANDLINE_H
