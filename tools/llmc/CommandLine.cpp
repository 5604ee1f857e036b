// The command line of `llmc`.
#include "tools/llmc/CommandLine.h"

#include "lib/support/Counted.h"
#include "lib/support/Nearest.h"
#include "tools/llmc/Flags.h"

#include <algorithm>

namespace llmc {
using support::Problems;
using support::text;

bool CommandLine::has(std::string_view flag) const {
  return std::find(given.begin(), given.end(), flag) != given.end();
}

bool CommandLine::isAuto(std::string_view flag) const {
  return std::find(autos.begin(), autos.end(), flag) != autos.end();
}

bool CommandLine::searches() const {
  bool hasAxis = has("--mesh");
  for (planfile::AxisRole role : planfile::kAxisRoles)
    hasAxis |= has(text("--", planfile::nameOf(role)));
  return !autos.empty() || (command == "plan" && prices.gpus > 0 && !hasAxis);
}

namespace {

// Checks what flags and words say together.
class Checks {
public:
  Checks(CommandLine &line, const support::Arguments &arguments, unsigned command,
         Problems &problems)
      : line(line), arguments(arguments), command(command), problems(problems) {}
  void takeWords();
  void run();

private:
  void checkMesh();
  void checkVerify();
  void checkModel();
  void checkBatch();
  void checkSearch();

  CommandLine &line;
  CompileOptions &options = line.options;
  const support::Arguments &arguments;
  const unsigned command;
  Problems &problems;
};

// Takes the words: a model, of explain a subject too.
void Checks::takeWords() {
  for (const std::string &word : arguments.words)
    if (word.empty())
      problems.usage("an empty word is neither a flag nor the name of a file");
    else if (options.model.empty())
      options.model = word;
    else if (command == kExplain && line.subject.empty())
      line.subject = word;
    else if (command == kCompare && line.other.empty())
      line.other = word;
    else if (arguments.isComplete && command == kCompare)
      problems.usage("more than two programs to compare: leave out '", word, "'");
    else if (arguments.isComplete && command == kExplain)
      problems.usage("more than one name to explain: '", line.subject, "' and '", word, "'");
    else if (arguments.isComplete)
      problems.usage("more than one model: '", options.model, "' and '", word, "'");
}

void Checks::checkMesh() {
  // Sizes of ep depend on that of dp, which follows from the number of accelerators where nothing else says it.
  if (line.prices.gpus > 0 && !line.has("--dp") && !line.has("--mesh"))
    predict::setDataRanks(line.prices.gpus, options);
  std::vector<std::string> errors;
  planfile::deriveAxes(options.meshSizes(/*hasExperts=*/false), errors);
  for (const std::string &error : errors)
    problems.refuse("--mesh: ", error);
}

void Checks::checkVerify() {
  if (line.mutate && options.model.ends_with(".mlir"))
    problems.refuse("--mutate needs a model, not a dump");
  if (!line.draws)
    return;
  if (!options.model.empty())
    problems.usage("--draws draws its models: leave out '", options.model, "'");
  for (const auto &[flag, value] : arguments.flags)
    if (!(flag->modes & kDraws))
      problems.usage("--draws draws models, meshes and choices; leave out ", flag->name);
}

void Checks::checkBatch() {
  int64_t rows = 0;
  if (__builtin_mul_overflow(options.microBatch, options.dp, &rows) ||
      rows > kMost / 4 / options.pp)
    return problems.refuse("micro-batch x dp is ", options.microBatch, " x ", options.dp,
                           " rows, more than a step can count; use fewer");
  if (!options.globalBatch)
    return;
  if (options.globalBatch % rows != 0) {
    int64_t below = options.globalBatch / rows * rows;
    problems.refuse("global batch ", options.globalBatch,
                    " is no multiple of micro-batch x dp = ", rows,
                    "; the nearest valid sizes are ", below ? text(below, " and ") : "",
                    below + rows);
  }
  int64_t most = std::max<int64_t>(1, CompileOptions::kMostRuns / options.pp);
  if (options.microBatches() > most)
    problems.refuse("global batch ", options.globalBatch, " is ", options.microBatches(),
                    " micro-batches of ", options.microBatch, " x dp ", options.dp,
                    " rows; with ", support::counted(options.pp, "stage"),
                    " a step has at most ", most, ": use --global-batch ", most * rows,
                    " or less, or a larger --micro-batch");
}

void Checks::checkModel() {
  if (command == kCalibrate) {
    if (!options.model.empty())
      problems.usage("llmc calibrate measures models of its own: leave out '", options.model, "'");
    if (options.output.empty())
      problems.usage("llmc calibrate needs -o FILE");
    return;
  }
  if (command == kBudget) {
    if (!options.model.empty())
      problems.usage("llmc budget takes flags alone, --params N for the size of a model: leave out '", options.model, "'");
    return;
  }
  if (options.model.empty() && !line.draws)
    return problems.usage("llmc ", line.command,
                          command & (kExplain | kTrace | kReport) ? " needs a program that llmc compile wrote"
                          : command == kCompare ? " needs two programs that llmc compile wrote"
                                              : " needs a model: an ONNX file or a config.json");
  if (command == kCompare && line.other.empty())
    problems.usage("llmc compare needs a second program to compare '", options.model, "' with");
  if (command == kReport && options.output.empty() && !line.json)
    problems.usage("llmc report needs -o FILE for the page, or --json");
  if (command == kCompile && options.output.empty())
    problems.usage("llmc compile needs -o OUT");
  if (!options.raise && options.pp > 1)
    problems.refuse("--raise off does not fold layers, so there are none to divide; use pp = 1");
  if (line.searches())
    checkSearch();
  else if (!options.infer)
    checkBatch();
}

// Checks that what shall be found can be: for a training, on a cluster.
void Checks::checkSearch() {
  const std::string flags = line.autos.empty() ? "a search" : line.autos.front() + " auto";
  if (command == kVerify)
    problems.refuse(flags, " is found by llmc plan and llmc compile; give the value that llmc verify shall prove");
  else if (options.infer)
    problems.refuse(flags, " is found for a training step; with --infer give a value");
  else if (command == kCompile && line.prices.gpu.empty() && line.prices.cluster.empty())
    problems.refuse(flags, " is found for a cluster: give --gpu NAME or --cluster FILE, and --gpus N");
  if (options.edp > 0)
    problems.refuse("--edp follows from the other axes, which are found; leave it out");
}

void Checks::run() {
  if (command == kCompile && !line.searches() && line.prices.gpus && line.prices.gpu.empty() && line.prices.cluster.empty())
    problems.refuse("--gpus ", line.prices.gpus, " counts the accelerators of a cluster, and none is named: give --gpu NAME or --cluster "
                    "FILE, or leave it out, and the ranks are those of the mesh");
  if (!problems.wrongUsage && !line.searches())
    checkMesh();
  if (!problems.messages.empty())
    return;
  if (command == kVerify)
    checkVerify();
  checkModel();
}

// Returns the bit of the command; 0 after a problem: there is no such command.
unsigned findBit(const std::string &name, Problems &problems) {
  std::vector<std::string> known;
  for (const Command &one : commands())
    if (one.bit)
      known.push_back(one.name);
  std::string names = namesOf(~0u);
  const Command *found = findCommand(name);
  known.insert(known.end(), {"--help", "--version"});
  if (name.empty())
    problems.usage("needs a command: ", names, "; see llmc --help");
  else if (!found)
    problems.usage("unknown command '", name, "'; commands are ", names,
                   support::didYouMean(name, known));
  else if (!found->bit)
    problems.refuse(name, " is not built yet; commands are ", names);
  return found ? found->bit : 0;
}

// Notes what a program records of a flag, and what names a cluster.
void note(CommandLine &line, const std::string &flag, const std::string &value) {
  auto isOneOf = [&](std::initializer_list<const char *> names) { return std::find(names.begin(), names.end(), flag) != names.end(); };
  line.given.push_back(flag);
  if (isOneOf({"--gpu", "--cluster", "--gpus-per-node", "--nvlink-domain", "--nic-gbytes", "--board-watts"}))
    line.clusterFlags.emplace_back(flag, value);
  else if (!isOneOf({"--output", "--quiet", "--verbose", "--dump-phases", "--compile-to", "--compile-from", "--cuda-kernels", "--gpus", "--objective",
                     "--dollars-per-gpu-hour", "--simulate"}))
    line.choices.emplace_back(flag, value);
}

// Sets all that the flags and words after the command say.
void read(CommandLine &line, const std::vector<std::string> &arguments, unsigned command,
          Problems &problems) {
  std::string llmc = text("llmc ", line.command, line.command.empty() ? "" : " ");
  support::Invocation invocation{command, llmc + "--help", [&](unsigned modes) {
    return text("belongs to llmc ", namesOf(modes), "; ", llmc, "does not use it");
  }};
  support::Arguments given = parseFlags(flagTable().flags(), arguments, invocation, problems);
  for (const auto &[flag, value] : given.flags)
    note(line, flag->name, value);
  Checks checks(line, given, command, problems);
  checks.takeWords();
  flagTable().set(given, line, problems);
  line.mutate |= line.mutants > 0;
  if (!line.help && !line.version)
    checks.run();
}

} // namespace

CommandLine parseCommandLine(std::vector<std::string> arguments, Problems &problems) {
  CommandLine line;
  if (!arguments.empty() && arguments[0] == "help")
    arguments[0] = "--help";
  std::string first = arguments.empty() ? "" : arguments[0];
  if (first.starts_with("-")) { // "llmc --help compile" is "llmc compile --help"
    Problems ignored;
    read(line, arguments, kNoCommand, ignored);
    if (!line.help && !line.version)
      findBit(first, problems);
    else if (line.command = line.options.model; !line.command.empty())
      findBit(line.command, problems);
    return line;
  }
  line.command = first;
  unsigned command = findBit(first, problems);
  if (!command)
    return line;
  arguments.erase(arguments.begin());
  read(line, arguments, command, problems);
  if (line.help || line.version)
    problems = {}; // what is asked for is clear
  return line;
}

} // namespace llmc
