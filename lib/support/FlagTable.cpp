#include "lib/support/FlagTable.h"

#include "lib/support/Nearest.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace llmc::support {
namespace {

bool holds(const std::vector<std::string> &list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string joined(const std::vector<std::string> &list, const char *separator) {
  std::string all;
  for (const std::string &item : list)
    all += (all.empty() ? "" : separator) + item;
  return all;
}

bool takesValue(const Flag &flag) { return flag.value || !flag.rules.values.empty(); }

std::string formOf(const Flag &flag) {
  return flag.value ? flag.value : joined(flag.rules.values, "|");
}

// Reads one command line.
class Parser {
public:
  Parser(const std::vector<Flag> &flags, const std::vector<std::string> &words,
         const Invocation &invocation, Problems &problems)
      : flags(flags), words(words), invocation(invocation), problems(problems) {}

  Arguments run() {
    for (size_t i = 0; i < words.size(); ++i)
      if (words[i].size() > 1 && words[i][0] == '-')
        flagAt(i);
      else
        result.words.push_back(words[i]);
    for (const GivenFlag &given : result.flags)
      checkTogether(*given.flag);
    return std::move(result);
  }

private:
  const Flag *find(std::string_view name) const {
    return findFlag(flags, name, invocation.mode);
  }
  void flagAt(size_t &i);
  bool takeValue(const Flag &flag, const std::string &name, size_t &i, std::string &value);
  void unknown(const std::string &name);
  void add(const Flag &flag, const std::string &name, const std::string &value);
  void checkTogether(const Flag &flag);

  const std::vector<Flag> &flags;
  const std::vector<std::string> &words;
  const Invocation &invocation;
  Problems &problems;
  std::set<std::string> seen; // known flags, also those that something is wrong with
  Arguments result;
};

void Parser::unknown(const std::string &name) {
  std::vector<std::string> names;
  for (const Flag &flag : flags)
    if ((flag.modes & invocation.mode) && !flag.rules.hidden)
      names.push_back(flag.name);
  std::string hint = didYouMean(name, names);
  problems.usage("unknown option '", name, "'", hint.empty() ? ";" : hint, " ", invocation.help,
                 " lists all");
  result.isComplete = false;
}

// Reads the flag at words[i], and its value where that is a word of its own.
void Parser::flagAt(size_t &i) {
  std::string name = words[i], value;
  size_t equal = name.starts_with("--") ? name.find('=') : std::string::npos;
  bool hasValue = equal != std::string::npos;
  if (hasValue) {
    value = name.substr(equal + 1);
    name.resize(equal);
  }
  const Flag *flag = find(name);
  if (!flag)
    return unknown(name);
  seen.insert(flag->name);
  if (!takesValue(*flag) && hasValue)
    return problems.usage(name, " takes no value, got '", value, "'");
  if (takesValue(*flag) && !hasValue && !takeValue(*flag, name, i, value))
    return;
  if (takesValue(*flag) && value.empty())
    return problems.usage(name, " needs a value: ", formOf(*flag));
  add(*flag, name, value);
}

// Takes the next word as the value, or the variable's where there is none. Returns false
// after a problem.
bool Parser::takeValue(const Flag &flag, const std::string &name, size_t &i, std::string &value) {
  // No file is called like a flag by a word that is not meant as one: ./-o names it.
  bool hasNone = i + 1 == words.size() || words[i + 1].starts_with("--") || find(words[i + 1]);
  const char *variable = flag.rules.environment;
  const char *found = variable && hasNone ? std::getenv(variable) : nullptr;
  if (found && *found) {
    value = found;
    return true;
  }
  if (hasNone) {
    problems.usage(name, " needs a value: ", formOf(flag),
                   variable ? text(", or the variable ", variable) : "");
    result.isComplete = false;
    return false;
  }
  value = words[++i];
  return true;
}

// Adds the flag, unless it is another mode's, is refused always, or is there already.
void Parser::add(const Flag &flag, const std::string &name, const std::string &value) {
  const Flag::Rules &rules = flag.rules;
  if (!(flag.modes & invocation.mode))
    return problems.usage(name, " ", invocation.elsewhere(flag.modes));
  if (!rules.refusedWith && !rules.refusal.empty())
    return problems.usage(name, " ", rules.refusal);
  for (const auto &[other, first] : result.flags)
    if (other == &flag && !rules.repeats)
      return problems.usage(flag.name, " is given twice",
                            first != value ? text(", ", first, " and ", value) : "",
                            "; give it once");
  result.flags.push_back({&flag, value});
}

void Parser::checkTogether(const Flag &flag) {
  const Flag::Rules &rules = flag.rules;
  for (const std::string &other : rules.excludes)
    if (seen.count(other))
      problems.usage(flag.name, " and ", other, " exclude each other; leave one out");
  bool isMet = rules.needs.empty();
  for (const std::string &other : rules.needs)
    isMet |= seen.count(other) != 0;
  if (!isMet)
    problems.usage(flag.name, " is for ", rules.needs.front());
  if (rules.refusedWith && seen.count(rules.refusedWith))
    problems.refuse(flag.name, " ", rules.refusal);
}

// Returns "  --flag VALUE           help  [standard]", further lines below the first.
std::string helpOf(const Flag &flag) {
  constexpr size_t kHelp = 25; // column
  const Flag::Rules &rules = flag.rules;
  std::string line = text("  ", rules.brief ? text(rules.brief, ", ") : "", flag.name,
                          takesValue(flag) ? " " : "", formOf(flag));
  const std::string margin(kHelp, ' ');
  line += line.size() + 2 > kHelp ? "\n" + margin : std::string(kHelp - line.size(), ' ');
  for (char c : std::string_view(flag.help))
    line += c == '\n' ? "\n" + margin : std::string(1, c);
  return line + (rules.standard ? text("  [", rules.standard, "]") : "") + "\n";
}

} // namespace

bool Arguments::has(std::string_view name) const {
  return std::any_of(flags.begin(), flags.end(),
                     [&](const GivenFlag &given) { return name == given.flag->name; });
}

const Flag *findFlag(const std::vector<Flag> &flags, std::string_view name, unsigned mode) {
  const Flag *found = nullptr;
  for (const Flag &flag : flags)
    if (name == flag.name || (flag.rules.brief && name == flag.rules.brief))
      if (!found || (!(found->modes & mode) && (flag.modes & mode)))
        found = &flag;
  return found;
}

Arguments parseFlags(const std::vector<Flag> &flags, const std::vector<std::string> &arguments,
                     const Invocation &invocation, Problems &problems) {
  return Parser(flags, arguments, invocation, problems).run();
}

bool checkWord(const GivenFlag &given, Problems &problems) {
  const auto &[flag, value] = given;
  const Flag::Rules &rules = flag->rules;
  if (holds(rules.later, value)) {
    problems.refuse(flag->name, " ", value, " is not built yet; ",
                    rules.instead.empty() ? text("use ", flag->name, " ", rules.standard)
                                          : rules.instead);
    return false;
  }
  if (rules.values.empty() || holds(rules.values, value))
    return true;
  bool several = rules.values.size() > 1;
  problems.usage(flag->name, several ? " is one of " : " is ", joined(rules.values, ", "),
                 ", got '", value, "'", several ? didYouMean(value, rules.values) : "");
  return false;
}

std::string flagsHelp(const std::vector<Flag> &flags, unsigned mode) {
  constexpr size_t kWidth = 80;
  std::string all, fixed;
  size_t width = 0;
  for (const Flag &flag : flags) {
    if (!(flag.modes & mode))
      continue;
    if (flag.help)
      all += helpOf(flag);
    else if (flag.rules.standard) {
      std::string word = text(flag.name, " ", flag.rules.standard);
      bool breaks = fixed.empty() || width + word.size() > kWidth;
      fixed += (fixed.empty() ? "\n  " : breaks ? ",\n  " : ", ") + word;
      width = (breaks ? 2 : width + 2) + word.size();
    }
  }
  return fixed.empty() ? all
                       : all + "\nOne value so far, others are refused by name:" + fixed + "\n";
}

} // namespace llmc::support
