// Parses the command line of `llmc`. Its names are fixed, so that scripts can rely on them. Tested
// by test/numerics/refusals.py and test/hostile.
#ifndef LLMC_TOOLS_LLMC_COMMANDLINE_H
#define LLMC_TOOLS_LLMC_COMMANDLINE_H

#include "lib/advise/Request.h"
#include "lib/budget/Budget.h"
#include "lib/options/Options.h"
#include "lib/options/Phases.h"
#include "lib/page/MeasuredFiles.h"
#include "lib/predict/PriceOptions.h"
#include "lib/predict/SimulatePlan.h"
#include "lib/support/FlagTable.h"
#include "lib/support/Progress.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// Holds the values of all flags; the initial values are the defaults.
struct CommandLine {
  std::string command;
  CompileOptions options;
  std::vector<std::string> given; // flags, as they came
  std::vector<std::string> autos; // those of them whose value shall be found
  advise::Flags choices;          // of compile: flags that make the plan, with values
  advise::Flags clusterFlags;     // that name a cluster, the same way
  std::optional<Phase> compileFrom; // of IR; else what it says itself
  Phase compileTo = Phase::Emit;
  bool json = false;
  bool quick = false; // of calibrate: --quick
  bool help = false, version = false; // asked for, of `command` or of llmc if that is empty
  support::Verbosity verbosity = support::Verbosity::Normal; // -q, -v
  // Returns whether the flag was given; with the value auto.
  bool has(std::string_view flag) const;
  bool isAuto(std::string_view flag) const;
  // Returns whether choices are to be found: those that are auto, or of llmc plan all for a number of accelerators.
  bool searches() const;
  std::string objective = "step"; // of the choices that are found
  double dollarsPerGpuHour = 0;
  predict::Simulating simulating = predict::Simulating::Auto; // of plan
  budget::Question budget; // of budget
  std::string other;   // compare: the second program
  std::string subject; // explain: a collective, node, parameter or kind of op; empty: all
  // Belongs to verify, as all that follows.
  std::optional<Phase> after;  // --after: this phase boundary alone
  std::optional<int64_t> seed; // of rows and drawn weights, and of --draws
  int64_t draws = 0;           // --draws: that many drawn models in place of MODEL
  int64_t interleavings = 0;   // --interleavings: runs in drawn orders
  std::string oracle;          // --oracle: a Python that runs the model's own file
  bool mutate = false;         // --mutate
  enum class Twin { Auto, On, Off };
  Twin twin = Twin::Auto;      // --twin: a scaled-down model replaces the plan
  int64_t mutants = 0;         // --mutants: at most so many of each fault; 0: all
  predict::PriceOptions prices; // of plan
  page::MeasuredFiles measured; // of report
  std::string report;           // of plan: the page that is written
  std::string without; // --without: a static checker that --mutate leaves out
};

// Parses everything after the program's name and finds all that is wrong with it; nothing is
// where help or the version is asked for. Wrong usage is exit 2; a choice that is not valid or
// not built is exit 1.
CommandLine parseCommandLine(std::vector<std::string> arguments, support::Problems &problems);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_COMMANDLINE_H
