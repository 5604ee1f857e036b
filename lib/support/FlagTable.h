// Declares a command line as one table of flags, which the parser, the setters and --help read.
// Tested by test/runtime/FlagTableTest.cpp.
#ifndef LLMC_LIB_SUPPORT_FLAGTABLE_H
#define LLMC_LIB_SUPPORT_FLAGTABLE_H

#include "lib/support/Error.h"

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::support {

// Collects what is wrong with a command line, one message each.
struct Problems {
  std::vector<std::string> messages;
  bool wrongUsage = false; // one of them is of a malformed command line

  // Adds that the command line is malformed.
  template <class... Ts> void usage(const Ts &...parts) {
    messages.push_back(text(parts...));
    wrongUsage = true;
  }
  // Adds that a choice is not valid, or not built.
  template <class... Ts> void refuse(const Ts &...parts) { messages.push_back(text(parts...)); }
};

// Declares one flag and the rules that hold for it.
struct Flag {
  const char *name;            // "--output"
  unsigned modes;              // commands or programs that take it, joined by |
  const char *value = nullptr; // its form in help; null: its values, or it takes none
  const char *help = nullptr;  // lines; null: help lists it under its standard value, if it has one
  struct Rules {
    const char *standard = nullptr;       // what holds without it, for help
    const char *brief = nullptr;          // "-o"
    std::vector<std::string> values = {}; // of an enumeration: those that are built
    std::vector<std::string> later = {};  // and those that are not built yet
    std::string instead = {};             // what to do in place of one that is not built
    bool repeats = false;                 // may be given several times
    bool hidden = false;                  // for tests: neither listed nor suggested
    const char *environment = nullptr;    // the variable that has its value where none is given
    std::vector<std::string> excludes = {}; // flags that contradict it
    std::vector<std::string> needs = {};    // flags without each of which it means nothing
    const char *refusedWith = nullptr;      // the flag with which it is refused
    std::string refusal = {}; // why it is refused with that flag, or always if there is none
  } rules = {};
};

// Describes the program that reads the command line.
struct Invocation {
  unsigned mode;    // one of those of Flag::modes
  std::string help; // the call that lists the flags: "llmc compile --help"
  std::function<std::string(unsigned modes)> elsewhere; // why a flag of these modes is refused
};

// Holds one flag as it was given, with its value.
struct GivenFlag {
  const Flag *flag;
  std::string value;
};

// Holds a command line in parts.
struct Arguments {
  std::vector<GivenFlag> flags;   // as they came
  std::vector<std::string> words; // neither flags nor their values
  bool isComplete = true;         // false: a word may be the value of a flag that is not known
  bool has(std::string_view name) const;
};

// Returns the flag of that name or brief name, if possible one of this mode; null if none.
const Flag *findFlag(const std::vector<Flag> &flags, std::string_view name, unsigned mode);

// Splits a command line into flags and words, and finds everything that is wrong with it but
// the values.
Arguments parseFlags(const std::vector<Flag> &flags, const std::vector<std::string> &arguments,
                     const Invocation &invocation, Problems &problems);

// Returns whether the value is a word that the flag has; adds a problem if it is not.
bool checkWord(const GivenFlag &given, Problems &problems);

// Returns the lines of help for all flags of a mode.
std::string flagsHelp(const std::vector<Flag> &flags, unsigned mode);

// Joins flags with the fields of `Options` that they set.
template <class Options> class FlagTable {
public:
  using Setter = std::function<void(Options &, const GivenFlag &, Problems &)>;
  struct Entry {
    Flag flag;
    Setter set = {}; // empty: its presence alone is asked for
  };

  FlagTable(std::initializer_list<std::vector<Entry>> groups) {
    for (const std::vector<Entry> &group : groups)
      for (const Entry &entry : group) {
        flags_.push_back(entry.flag);
        setters_.push_back(entry.set);
      }
  }

  const std::vector<Flag> &flags() const { return flags_; }

  // Sets the fields of all given flags whose values are valid; adds a problem for each other.
  void set(const Arguments &arguments, Options &options, Problems &problems) const {
    for (const GivenFlag &given : arguments.flags)
      if (const Setter &setter = setters_[given.flag - flags_.data()];
          checkWord(given, problems) && setter)
        setter(options, given, problems);
  }

private:
  std::vector<Flag> flags_;
  std::vector<Setter> setters_;
};

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_FLAGTABLE_H
