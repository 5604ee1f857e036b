// Lists the flags of `llmc` in one table, which the parser, the checks and --help read.
#ifndef LLMC_TOOLS_LLMC_FLAGS_H
#define LLMC_TOOLS_LLMC_FLAGS_H

#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// Identifies the commands that take a flag, joined by |.
enum Commands : unsigned { kCompile = 1, kInspect = 2, kExplain = 4, kVerify = 8 };

// Describes one flag.
struct Flag {
  const char *name;
  unsigned commands;
  const char *value; // placeholder in --help; null: it takes no value
  const char *help;  // lines; null: hidden, a choice with one value so far
  const char *standard = nullptr; // default, for --help
  std::vector<std::string> values = {}; // of an enumeration: values that are built
  std::vector<std::string> later = {};  // of an enumeration: values not built yet
  bool many = false;                    // may be given several times
  const char *brief = nullptr;          // "-o"
  const char *inference = nullptr;      // null, or why it is for training alone and what to do
  const char *environment = nullptr;    // variable with its value if none is given
};
// Returns the table of all flags.
const std::vector<Flag> &flags();

// Returns the flag of that long or short name; null if there is none.
const Flag *findFlag(std::string_view name);

// Describes one command for the parser and --help.
struct Command {
  const char *name;
  unsigned bit; // 0: not built yet
  const char *usage, *about;
  const char *line; // in the list of commands
};
const std::vector<Command> &commands();
// Returns the command of that name; null if there is none.
const Command *findCommand(std::string_view name);
// Returns the names of a set of commands, as in "compile, verify".
std::string namesOf(unsigned commands);

// Returns "; did you mean 'NAME'?", or an empty string if no candidate is near.
std::string didYouMean(const std::string &typed, const std::vector<std::string> &candidates);

// Returns the choices that have one built value each, as in "zero 0, precision fp32, ...".
std::string builtChoices();

// Returns the text of --help for a command, or for all of them if it is empty.
std::string helpText(const std::string &command);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_FLAGS_H
