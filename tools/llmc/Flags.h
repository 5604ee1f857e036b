// The flags of `llmc`, in one table: the parser, the checks and --help read it.
#ifndef LLMC_TOOLS_LLMC_FLAGS_H
#define LLMC_TOOLS_LLMC_FLAGS_H

#include <string>
#include <string_view>
#include <vector>

namespace llmc {

// The commands that take a flag, joined by |.
enum Commands : unsigned { kCompile = 1, kInspect = 2, kExplain = 4, kVerify = 8 };

struct Flag {
  const char *name;
  unsigned commands;
  const char *value; // its form in --help; null: it takes none
  const char *help;  // lines; null: a choice with one value so far, which --help leaves out
  const char *standard = nullptr; // what holds without it, for --help
  std::vector<std::string> values = {}; // of an enumeration: those that are built
  std::vector<std::string> later = {};  // and those that are not built yet
  bool many = false;                    // may be given several times
  const char *brief = nullptr;          // "-o"
  const char *inference = nullptr;      // why it is for training alone, and what to do instead
  const char *environment = nullptr;    // the variable that has its value where none is given
};
const std::vector<Flag> &flags();

// The flag of that name, or brief name; null if there is none.
const Flag *findFlag(std::string_view name);

struct Command {
  const char *name;
  unsigned bit; // 0: not built yet
  const char *usage, *about;
  const char *line; // of the list of commands
};
const std::vector<Command> &commands();
const Command *findCommand(std::string_view name);
// "compile, verify".
std::string namesOf(unsigned commands);

// "; did you mean 'NAME'?", empty if no candidate is near.
std::string didYouMean(const std::string &typed, const std::vector<std::string> &candidates);

// Choices that have one built value each, as "zero 0, precision fp32, ...".
std::string builtChoices();

// Text of --help for a command, or for all of them if empty.
std::string helpText(const std::string &command);

} // namespace llmc

#endif // LLMC_TOOLS_LLMC_FLAGS_H
