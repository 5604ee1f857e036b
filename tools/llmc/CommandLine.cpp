// Parses the command line of `llmc`.
#include "tools/llmc/CommandLine.h"

#include "lib/support/Counted.h"
#include "passes/6-emit/cuda/Cuda.h"
#include "tools/llmc/Flags.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace llmc {
using support::text;

bool CommandLine::has(std::string_view flag) const {
  return std::find(given.begin(), given.end(), flag) != given.end();
}

namespace {

// Limits counts: a plan counts rows in 32 bits.
constexpr int64_t kMost = int64_t(1) << 31;

std::optional<int64_t> parseNumber(const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

// Returns the parts between separators, empty ones too.
std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::string joined(const std::vector<std::string> &list) {
  std::string text;
  for (const std::string &item : list)
    text += (text.empty() ? "" : ", ") + item;
  return text;
}

class Parser {
public:
  explicit Parser(const std::vector<std::string> &arguments) : arguments(arguments) {}
  ParsedCommandLine run();

private:
  void usage(const std::string &message) {
    result.errors.push_back(message);
    result.wrongUsage = true;
  }
  void refuse(const std::string &message) { result.errors.push_back(message); }
  bool findCommandOf();
  void parseAll();
  void flagAt(size_t &i);
  void positional(const std::string &word);
  void unknown(const std::string &name);
  bool mayStand(const Flag &flag, const std::string &value);
  bool enumerated(const Flag &flag, const std::string &value);
  void set(const std::string &flag, const std::string &value);
  bool setNumber(const std::string &flag, const std::string &value);
  void number(const std::string &flag, const std::string &text, int64_t &target, int64_t least);
  void mesh(const std::string &text);
  void namedMesh(const std::string &text);
  void dims(const std::string &text);
  void cudaKernels(const std::string &text);
  void dropout(const std::string &text);
  void checkInference();
  void checkMesh();
  void checkVerify();
  void checkBatch();
  void finish();

  const std::vector<std::string> &arguments;
  ParsedCommandLine result;
  CommandLine &line = result.line;
  CompileOptions &options = result.line.options;
  unsigned command = 0;
  std::vector<std::pair<std::string, std::string>> values; // flags with their values, in order
  bool hasModel = false, hasSubject = false, hasUnknown = false;
};

void Parser::number(const std::string &flag, const std::string &text, int64_t &target,
                    int64_t least) {
  if (text == "auto")
    return refuse(flag + " auto is not built yet; give a number");
  auto value = parseNumber(text);
  if (!value || *value < least || *value > kMost)
    return usage(support::text(flag, " needs a whole number from ", least, " to ", kMost, ", got '",
                               text, "'"));
  target = *value;
}

void Parser::namedMesh(const std::string &text) {
  std::set<std::string> seen;
  for (const std::string &part : split(text, ',')) {
    size_t equal = part.find('=');
    std::string name = part.substr(0, equal);
    if (equal == std::string::npos)
      return usage("--mesh: '" + part + "' is no axis=size, in '" + text + "'");
    auto role = planfile::roleNamed(name);
    if (!role) {
      std::vector<std::string> names = split(planfile::allRoleNames(), ' ');
      for (std::string &known : names)
        known.erase(std::remove(known.begin(), known.end(), ','), known.end());
      usage("--mesh: unknown axis '" + name + "'; axes are " + planfile::allRoleNames() +
            didYouMean(name, names));
    } else if (!seen.insert(name).second) {
      usage("--mesh: " + name + " is given twice, in '" + text + "'");
    } else {
      number("--mesh " + name, part.substr(equal + 1), options.of(*role), 1);
    }
  }
  for (const std::string &name : seen)
    if (line.has("--" + name))
      usage("--mesh and --" + name + " both give the size of " + name + "; give one of them");
}

// Parses a mesh: 8 is dp; 4x2 is dp x tp; 8x16x8 is dp x pp x tp.
void Parser::mesh(const std::string &text) {
  if (text == "auto")
    return refuse("--mesh auto is not built yet; name the sizes, for example --mesh 2x2x2 (dp x pp x tp)");
  if (text.find('=') != std::string::npos)
    return namedMesh(text);
  std::vector<int64_t> sizes;
  for (const std::string &part : split(text, 'x')) {
    auto value = parseNumber(part);
    if (!value || *value < 1 || *value > 1 << 20)
      return usage("--mesh needs sizes of 1 to 1048576 joined by x, got '" + text + "'");
    sizes.push_back(*value);
  }
  if (sizes.size() > 3)
    return usage("--mesh needs one to three sizes (dp, dp x tp, dp x pp x tp), got '" + text + "'");
  using planfile::AxisRole;
  for (AxisRole role : {AxisRole::Data, AxisRole::Stages, AxisRole::Tensor})
    if (std::string_view name = nameOf(role); line.has(support::text("--", name)))
      usage(support::text("--mesh ", text, " and --", name, " both give the size of ", name,
                          "; give one of them"));
  options.dp = sizes[0];
  options.tp = sizes.size() > 1 ? sizes.back() : 1;
  options.pp = sizes.size() == 3 ? sizes[1] : 1;
}

// Parses name=value, or several joined by commas.
void Parser::dims(const std::string &text) {
  for (const std::string &part : split(text, ',')) {
    size_t equal = part.rfind('=');
    int64_t size = 0;
    if (equal == std::string::npos || equal == 0)
      return usage("--dim needs name=value, got '" + part + "' in '" + text + "'");
    std::string name = part.substr(0, equal);
    number("--dim " + name, part.substr(equal + 1), size, 0); // 0 is an empty cache
    if (!options.dims.emplace(name, size).second)
      usage("--dim: " + name + " is given twice");
  }
}

// Parses a list of chips such as sm_80,sm_90, or all.
void Parser::cudaKernels(const std::string &text) {
  std::vector<std::string> known, &chips = options.cudaKernels;
  for (llvm::StringRef chip : emit::kCudaChips)
    known.push_back(chip.str());
  for (const std::string &part : split(text, ',')) {
    if (part != "all" && std::find(known.begin(), known.end(), part) == known.end())
      return usage("--cuda-kernels: chips are " + joined(known) + " or all, got '" + part + "'" +
                   didYouMean(part, known));
    for (const std::string &chip : known)
      if ((part == "all" || part == chip) &&
          std::find(chips.begin(), chips.end(), chip) == chips.end())
        chips.push_back(chip);
  }
}

void Parser::dropout(const std::string &text) {
  char *end = nullptr;
  double rate = std::strtod(text.c_str(), &end);
  if (text != "config" && (text.empty() || *end || !(rate >= 0 && rate < 1)))
    usage("--dropout needs a rate of at least 0 and below 1, or config, got '" + text + "'");
  else if (text == "config" || rate != 0)
    refuse("--dropout " + text + " is not built yet; use --dropout 0");
}

// Returns true if the value is built; else adds an error and returns false.
bool Parser::enumerated(const Flag &flag, const std::string &value) {
  auto holds = [&](const std::vector<std::string> &list) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  if (holds(flag.values))
    return true;
  std::string name = flag.name;
  if (name == "--target" && value == "cuda")
    refuse("--target cuda is not built yet; use --target cpu, and --cuda-kernels all to add "
           "kernels that scripts/gpu-check.sh runs on a card");
  else if (holds(flag.later))
    refuse(name + " " + value + " is not built yet; use " + name + " " +
           (flag.standard ? flag.standard : flag.values.front()));
  else
    usage(name + (flag.values.size() > 1 ? " is one of " : " is ") + joined(flag.values) + ", got '" +
          value + "'" + (flag.values.size() > 1 ? didYouMean(value, flag.values) : ""));
  return false;
}

bool Parser::setNumber(const std::string &flag, const std::string &value) {
  if (auto role = planfile::roleNamed(std::string_view(flag).substr(2)))
    number(flag, value, options.of(*role), 1);
  else if (flag == "--micro-batch")
    number(flag, value, options.microBatch, 1);
  else if (flag == "--global-batch")
    number(flag, value, options.globalBatch, 1);
  else if (flag == "--seq")
    number(flag, value, options.sequence, 1);
  else if (flag == "--seed")
    number(flag, value, line.seed.emplace(), 0);
  else if (flag == "--draws")
    number(flag, value, line.draws, 1);
  else if (flag == "--interleavings")
    number(flag, value, line.interleavings, 1);
  else if (flag == "--mutants")
    number(flag, value, line.mutants, 1);
  else
    return false;
  return true;
}

// Stores the value of a flag; a value of an enumeration is valid already.
void Parser::set(const std::string &flag, const std::string &value) {
  line.mutate |= flag == "--mutate" || flag == "--mutants";
  if (setNumber(flag, value))
    return;
  if (flag == "--mesh")
    mesh(value);
  else if (flag == "--without")
    line.without = value;
  else if (flag == "--dim")
    dims(value);
  else if (flag == "--cuda-kernels")
    cudaKernels(value);
  else if (flag == "--infer")
    options.infer = true;
  else if (flag == "--json")
    line.json = true;
  else if (flag == "--quiet")
    line.verbosity = support::Verbosity::Quiet;
  else if (flag == "--verbose")
    line.verbosity = support::Verbosity::Verbose;
  else if (flag == "--schedule")
    options.schedule = value == "gpipe" ? Schedule::GPipe : Schedule::OneFOneB;
  else if (flag == "--optimizer")
    options.optimizer = value == "sgd" ? Optimizer::Sgd : Optimizer::AdamW;
  else if (flag == "--tie")
    options.tie = value == "auto" ? Tie::Auto : value == "off" ? Tie::Off : Tie::Exact;
  else if (flag == "--raise")
    options.raise = value == "on";
  else if (flag == "--weights")
    options.weights = value;
  else if (flag == "--dump-phases")
    options.dumpFolder = value;
  else if (flag == "--output")
    options.output = value;
  else if (flag == "--compile-to")
    line.compileTo = *parsePhase(value);
  else if (flag == "--compile-from")
    line.compileFrom = parsePhase(value);
  else if (flag == "--after")
    line.after = parsePhase(value);
  else if (flag == "--oracle")
    line.oracle = value;
  else if (flag == "--twin")
    line.twin = value == "on"    ? CommandLine::Twin::On
                : value == "off" ? CommandLine::Twin::Off
                                 : CommandLine::Twin::Auto;
}

void Parser::unknown(const std::string &name) {
  for (const char *other : {"--data", "--steps", "--lr", "--save", "--metrics", "--input", "--seed"})
    if (name == other)
      return usage(name + " belongs to the program that is made: ./OUT " + name + " ...");
  std::vector<std::string> names;
  for (const Flag &flag : flags())
    if (flag.commands & command)
      names.push_back(flag.name);
  std::string hint = didYouMean(name, names);
  usage("unknown option '" + name + "'" + (hint.empty() ? "; llmc " : hint + " llmc ") + line.command +
        " --help lists all");
  hasUnknown = true;
}

// Returns true if the flag may be given here; else (it belongs to another command, or is
// given twice) adds an error and returns false.
bool Parser::mayStand(const Flag &flag, const std::string &value) {
  std::string name = flag.name;
  if (!(flag.commands & command)) {
    if (name == "--seed" && command == kCompile)
      unknown(name);
    else
      usage((flag.brief ? flag.brief : name) + " belongs to llmc " + namesOf(flag.commands) + "; llmc " + line.command +
            " does not use it");
    return false;
  }
  for (const auto &[before, first] : values)
    if (before == name && !flag.many) {
      usage(name + " is given twice" +
            (flag.value && first != value ? ", " + first + " and " + value : "") + "; give it once");
      return false;
    }
  return true;
}

// Parses the flag at arguments[i], and its value, which may be the next argument.
void Parser::flagAt(size_t &i) {
  std::string name = arguments[i], value;
  size_t equal = name.rfind("--", 0) == 0 ? name.find('=') : std::string::npos;
  bool hasValue = equal != std::string::npos;
  if (hasValue) {
    value = name.substr(equal + 1);
    name = name.substr(0, equal);
  }
  const Flag *flag = findFlag(name);
  if (!flag)
    return unknown(name);
  if (!flag->value && hasValue)
    return usage(name + " takes no value, got '" + value + "'");
  bool isLast = i + 1 == arguments.size() || arguments[i + 1].rfind("--", 0) == 0;
  const char *fromOutside = flag->environment && isLast ? std::getenv(flag->environment) : nullptr;
  if (fromOutside && *fromOutside && !hasValue) {
    value = fromOutside;
    hasValue = true;
  }
  if (flag->value && !hasValue) {
    // Takes no known flag as a value: a file of such a name is given as ./-o.
    if (i + 1 == arguments.size() || arguments[i + 1].rfind("--", 0) == 0 ||
        findFlag(arguments[i + 1])) {
      hasUnknown = true;
      return usage(name + " needs a value: " + flag->value +
                   (flag->environment ? text(", or the variable ", flag->environment) : ""));
    }
    value = arguments[++i];
  }
  if (flag->value && value.empty())
    return usage(name + " needs a value: " + flag->value);
  if (mayStand(*flag, value)) {
    values.push_back({flag->name, value});
    line.given.push_back(flag->name);
  }
}

void Parser::positional(const std::string &word) {
  if (word.empty())
    return usage("an empty word is neither a flag nor the name of a file");
  if (!hasModel) {
    options.model = word;
    hasModel = true;
  } else if (command == kExplain && !hasSubject) {
    line.subject = word;
    hasSubject = true;
  } else if (!hasUnknown) { // else it may be the value of an unknown flag
    usage("more than one model: '" + options.model + "' and '" + word + "'");
  }
}

void Parser::checkInference() {
  if (line.has("--train"))
    usage("--train and --infer exclude each other");
  for (const Flag &flag : flags())
    if (flag.inference && line.has(flag.name))
      refuse(std::string(flag.name) + " is for training; with --infer " + flag.inference);
}

// Checks the mesh axes. Experts and long sequences have no ranks of their own yet, but the
// sizes must agree nevertheless.
void Parser::checkMesh() {
  using planfile::AxisRole;
  for (AxisRole role : {AxisRole::Context, AxisRole::Expert, AxisRole::ExpertTensor})
    if (int64_t size = options.of(role); size != 1)
      refuse(text("--", nameOf(role), " ", size, " is not built yet; use --", nameOf(role), " 1"));
  std::vector<std::string> errors;
  planfile::deriveAxes(options, errors);
  for (const std::string &error : errors)
    refuse("--mesh: " + error);
}

void Parser::checkVerify() {
  bool isIr = options.model.ends_with(".mlir");
  if (line.mutate && (line.draws || line.after))
    usage("--mutate is about the plan of one model; leave out --draws and --after");
  if (!line.without.empty() && !line.mutate)
    usage("--without is about --mutate");
  if (line.mutate && isIr)
    refuse("--mutate needs a model, not a dump");
  if (line.after && line.interleavings)
    usage("--interleavings runs the plan, --after looks at one border before it; leave one out");
  if (!line.draws)
    return;
  if (hasModel)
    usage("--draws draws its models: leave out '" + options.model + "'");
  for (const std::string &flag : line.given)
    if (flag != "--draws" && flag != "--seed" && flag != "--infer" && flag != "--train" &&
        flag != "--json" && flag != "--mutate" && flag != "--mutants" && flag != "--quiet" &&
        flag != "--verbose")
      usage("--draws draws models, meshes and choices; leave out " + flag);
}

// Limits the micro-batches of a step, whose table must stay small enough to be checked.
void Parser::checkBatch() {
  constexpr int64_t kRuns = int64_t(1) << 18; // micro-batches x stages
  int64_t rows = 0;
  if (__builtin_mul_overflow(options.microBatch, options.dp, &rows) || rows > kMost / 4 / options.pp)
    return refuse(text("micro-batch x dp is ", options.microBatch, " x ", options.dp,
                       " rows, more than a step can count; use fewer"));
  if (!options.globalBatch)
    return;
  if (options.globalBatch % rows != 0) {
    int64_t below = options.globalBatch / rows * rows;
    refuse(text("global batch ", options.globalBatch, " is no multiple of micro-batch x dp = ", rows,
                "; the nearest valid sizes are ", below ? text(below, " and ") : "", below + rows));
  }
  int64_t most = std::max<int64_t>(1, kRuns / options.pp);
  if (options.microBatches() > most)
    refuse(text("global batch ", options.globalBatch, " is ", options.microBatches(),
                " micro-batches of ", options.microBatch, " x dp ", options.dp, " rows; with ",
                support::counted(options.pp, "stage"), " a step has at most ", most,
                ": use --global-batch ", most * rows, " or less, or a larger --micro-batch"));
}

void Parser::finish() {
  if (line.help)
    return;
  if (options.infer)
    checkInference();
  if (line.has("--quiet") && line.has("--verbose"))
    usage("--quiet and --verbose exclude each other");
  if (!result.wrongUsage)
    checkMesh();
  if (!result.errors.empty())
    return;
  if (command == kVerify)
    checkVerify();
  if (!hasModel && !line.draws)
    return usage("llmc " + line.command + (command == kExplain ? " needs a program that llmc compile wrote"
                                                                : " needs a model: an ONNX file or a config.json"));
  if (command == kCompile && options.output.empty())
    usage("llmc compile needs -o OUT");
  if (!options.raise && options.pp > 1)
    refuse("--raise off does not fold layers, so there are none to divide; use pp = 1");
  if (!options.infer)
    checkBatch();
}

// Finds the command; adds an error and returns false if there is no such command.
bool Parser::findCommandOf() {
  std::vector<std::string> names;
  for (const Command &one : commands())
    if (one.bit)
      names.push_back(one.name);
  if (arguments.empty()) {
    usage("needs a command: " + joined(names) + "; see llmc --help");
    return false;
  }
  line.command = arguments[0];
  const Command *found = findCommand(line.command);
  if (!found) {
    std::vector<std::string> known = names;
    known.insert(known.end(), {"--help", "--version"});
    usage("unknown command '" + line.command + "'; commands are " + joined(names) +
          didYouMean(line.command, known));
  } else if (!found->bit)
    refuse(line.command + " is not built yet; commands are " + joined(names));
  command = found ? found->bit : 0;
  return command != 0;
}

void Parser::parseAll() {
  for (size_t i = 1; i < arguments.size(); ++i)
    if (arguments[i].size() > 1 && arguments[i][0] == '-')
      flagAt(i);
    else
      positional(arguments[i]);
  line.help = line.has("--help");
  if (line.help)
    return;
  for (const auto &[name, value] : values) {
    const Flag &flag = *findFlag(name);
    if (name == "--dropout")
      dropout(value);
    else if (flag.values.empty() || enumerated(flag, value))
      set(name, value);
  }
}

ParsedCommandLine Parser::run() {
  if (!findCommandOf())
    return std::move(result);
  parseAll();
  finish();
  return std::move(result);
}

} // namespace

ParsedCommandLine parseCommandLine(const std::vector<std::string> &arguments) {
  return Parser(arguments).run();
}

} // namespace llmc
