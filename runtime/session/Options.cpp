#include "runtime/session/Options.h"

#include "lib/support/Nearest.h"
#include "runtime/compute/Cpu.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::ok;
using support::Status;
using support::text;

namespace {

enum Programs : uint8_t { kTrain = 1, kInfer = 2, kAll = 3 };

struct Flag {
  Programs programs; // programs that take it
  std::string name;
  std::string value; // placeholder; empty: takes none
  std::string help;  // empty: hidden
  std::function<Status(Options &, const std::string &)> set;
  bool repeats = false; // may be given several times
};

support::Result<double> readReal(const std::string &value) {
  char *end = nullptr;
  errno = 0;
  double number = std::strtod(value.c_str(), &end);
  bool decimal = value.find_first_of("xX") == std::string::npos; // strtod() reads 0x10 as 16
  if (value.empty() || *end != '\0' || !std::isfinite(number) || !decimal)
    return error("'", value, "' is not a number");
  if (errno == ERANGE)
    return error(value, " is nearer to 0 than a double can hold");
  return number;
}

support::Result<uint64_t> readWhole(const std::string &value) {
  if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos)
    return error("'", value, "' is not a whole number");
  errno = 0;
  uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
  if (errno == ERANGE)
    return error(value, " is above ", UINT64_MAX);
  return number;
}

// Returns a setter of a number in [least, most).
auto real(double Options::*field, double least, double most) {
  return [=](Options &options, const std::string &value) -> Status {
    support::Result<double> number = readReal(value);
    if (!number)
      return number.takeError();
    if (*number < least || *number >= most)
      return most == HUGE_VAL ? error(value, " is less than ", least)
                              : error(value, " is outside of [", least, ", ", most, ")");
    options.*field = *number;
    return ok();
  };
}

auto positive(double Options::*field) {
  return [=](Options &options, const std::string &value) -> Status {
    if (Status s = real(field, 0, HUGE_VAL)(options, value); !s)
      return s;
    return options.*field > 0 ? ok() : Status(error(value, " is not above 0"));
  };
}

template <class T> auto whole(T Options::*field) {
  return [=](Options &options, const std::string &value) -> Status {
    support::Result<uint64_t> number = readWhole(value);
    if (!number)
      return number.takeError();
    if (std::is_same_v<T, unsigned> && (*number == 0 || *number > 4096))
      return error(value, " is outside of [1, 4096]");
    options.*field = static_cast<T>(*number);
    return ok();
  };
}

auto path(std::string Options::*field) {
  return [=](Options &options, const std::string &value) -> Status {
    if (value.empty())
      return error("an empty name");
    if (value == "-")
      return error("'-' is no file; name /dev/stdout, or ./- for a file of that name");
    options.*field = value;
    return ok();
  };
}

auto toggle(bool Options::*field, bool to) {
  return [=](Options &options, const std::string &) -> Status {
    options.*field = to;
    return ok();
  };
}

auto flagText(const std::string &meant) {
  return meant.empty() ? "" : "; did you mean " + meant + "?";
}

// Fails unless `value` is one of `words`.
Status checkWord(const std::string &value, const std::vector<std::string> &words) {
  std::string all;
  for (const std::string &word : words) {
    if (word == value)
      return ok();
    all += (all.empty() ? "" : ", ") + word;
  }
  return error("'", value, "' is not one of ", all, flagText(support::nearest(value, words)));
}

Status setInput(Options &options, const std::string &value) {
  size_t at = value.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == value.size())
    return error("'", value, "' is not NAME=FILE.npy");
  if (!options.inputs.emplace(value.substr(0, at), value.substr(at + 1)).second)
    return error("the input '", value.substr(0, at), "' is given twice");
  return ok();
}

Status setSteps(Options &options, const std::string &value) {
  support::Result<uint64_t> number = readWhole(value);
  if (!number)
    return number.takeError();
  options.steps = *number;
  return ok();
}

// Parses FIRST:LAST, or FIRST alone.
Status setTraceSteps(Options &options, const std::string &value) {
  size_t colon = value.find(':');
  support::Result<uint64_t> first = readWhole(value.substr(0, colon));
  support::Result<uint64_t> last =
      colon == std::string::npos ? first : readWhole(value.substr(colon + 1));
  if (!first || !last || *first == 0 || *last < *first)
    return error("'", value, "' is not FIRST:LAST, counted from 1");
  options.traceSteps = {*first, *last};
  return ok();
}

Status setInterleaving(Options &options, const std::string &value) {
  support::Result<uint64_t> number = readWhole(value);
  if (!number)
    return number.takeError();
  options.interleaving = *number;
  return ok();
}

constexpr LrSchedule kSchedules[] = {LrSchedule::Constant, LrSchedule::Cosine, LrSchedule::Linear,
                                     LrSchedule::Wsd};

Status setSchedule(Options &options, const std::string &value) {
  std::vector<std::string> names;
  for (LrSchedule schedule : kSchedules) {
    names.emplace_back(toString(schedule));
    if (names.back() == value)
      options.lrSchedule = schedule;
  }
  return checkWord(value, names);
}

Status setDecaySteps(Options &options, const std::string &value) {
  support::Result<uint64_t> number = readWhole(value);
  if (!number)
    return number.takeError();
  options.decaySteps = *number;
  return ok();
}

// Adds a file of --data. Its weight is split off by readWeights(), which knows how many there
// are.
Status addData(Options &options, const std::string &value) {
  if (value.empty())
    return error("an empty name");
  options.data.push_back({value, 1});
  return ok();
}

Status setTokenType(Options &options, const std::string &value) {
  options.tokenType = value == "u32" ? support::ElementType::U32 : support::ElementType::U16;
  return checkWord(value, {"u16", "u32"});
}

Status setCpu(Options &options, const std::string &value) {
  std::vector<std::string> names;
  for (const CpuVersion &version : cpuVersions())
    names.emplace_back(version.name);
  options.cpu = value;
  return checkWord(value, names);
}

auto level(support::Verbosity to) {
  return [=](Options &options, const std::string &) -> Status {
    if (options.verbosity != support::Verbosity::Normal)
      return error("--quiet and --verbose exclude each other");
    options.verbosity = to;
    return ok();
  };
}

const std::vector<Flag> &flags() {
  static const std::vector<Flag> all = {
      {kTrain, "data", "FILE",
       "raw u16 tokens (u32 if the vocabulary exceeds 65,536), or PREFIX of Megatron's .bin and\n"
       ".idx; rows of seq + 1; several files: --data WEIGHT:FILE for each",
       addData, true},
      {kTrain, "data-dtype", "u16|u32", "of raw tokens (default: as the vocabulary needs)",
       setTokenType},
      {kTrain, "input", "NAME=FILE.npy",
       "rows [N, ...] of an input, in place of --data; repeat per input", setInput, true},
      {kInfer, "input", "NAME=FILE.npy", "an array for an input; repeat per input", setInput, true},
      {kInfer, "output", "DIR", "where every output goes as NAME.npy; made if missing",
       path(&Options::output)},
      {kInfer, "repeat", "N", "run N times more and print the latency", whole(&Options::repeat)},
      {kTrain, "no-shuffle", "", "keep the rows of --data in order",
       toggle(&Options::shuffle, false)},
      {kTrain, "steps", "N", "steps to train (default: once over the data)", setSteps},
      {kAll, "seed", "S", "seed of all that is drawn (default 0)", whole(&Options::seed)},
      {kAll, "weights", "FILE|DIR|random",
       "safetensors to start from (default: the model's own, else drawn)", path(&Options::weights)},
      {kTrain, "lr", "X", "learning rate (default 3e-4)", real(&Options::lr, 0, HUGE_VAL)},
      {kTrain, "lr-schedule", "NAME",
       "after the warm-up: constant (default), cosine, linear, wsd (stable, then a linear decay)",
       setSchedule},
      {kTrain, "min-lr", "X",
       "what cosine, linear and wsd lead to: the rate after the last step (default 0)",
       real(&Options::minLr, 0, HUGE_VAL)},
      {kTrain, "decay-steps", "N", "steps of wsd's decay (default: a tenth of all)", setDecaySteps},
      {kTrain, "warmup", "N", "steps of linear warm-up (default 0)", whole(&Options::warmup)},
      {kTrain, "weight-decay", "X", "on tensors of two or more dims (default 0.1)",
       real(&Options::weightDecay, 0, HUGE_VAL)},
      {kTrain, "beta1", "X", "AdamW (default 0.9)", real(&Options::beta1, 0, 1)},
      {kTrain, "beta2", "X", "AdamW (default 0.95)", real(&Options::beta2, 0, 1)},
      {kTrain, "eps", "X", "AdamW (default 1e-8)", positive(&Options::eps)},
      {kTrain, "clip", "X", "largest norm of the gradient (default 1, 0 is off)",
       real(&Options::clip, 0, HUGE_VAL)},
      {kTrain, "eval-data", "FILE", "tokens whose loss is told at the end; rows in order",
       path(&Options::evalData)},
      {kTrain, "eval-every", "N", "and after every N steps", whole(&Options::evalEvery)},
      {kTrain, "eval-batches", "K", "only its first K global batches",
       whole(&Options::evalBatches)},
      {kTrain, "metrics", "FILE",
       "a JSON line a step: step loss grad_norm lr tokens step_time_s tokens_per_s",
       path(&Options::metrics)},
      {kTrain, "force", "", "replace the file of --metrics, if there is one",
       toggle(&Options::force, true)},
      {kTrain, "dump", "FILE",
       "safetensors with loss, grad:NAME (first step) and param:NAME (at the end); a\n"
       "tensor of several names is there under each",
       path(&Options::dump)},
      {kTrain, "save", "DIR",
       "model.safetensors at the end, on a signal, and of the last good step where a run fails",
       path(&Options::save)},
      {kAll, "workers", "N", "threads that drive the ranks (default: cores, at most ranks)",
       whole(&Options::workers)},
      {kAll, "threads", "N",
       "threads of one rank's kernels (default: the plan's, else cores / ranks)",
       whole(&Options::threads)},
      {kAll, "cpu", "avx2|avx512", "kernels to run (default: the best that the processor has)",
       setCpu},
      {kAll, "no-library", "", "multiply matrices with the program's own kernels",
       toggle(&Options::library, false)},
      {kAll, "no-pin", "",
       "let the system move threads between cores (LLMC_NO_PIN=1 does the same)",
       toggle(&Options::pin, false)},
      {kAll, "profile", "", "measure every instruction, print at the end where the time went",
       toggle(&Options::profile, true)},
      {kAll, "trace", "FILE",
       "what ran when, as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing",
       path(&Options::trace)},
      {kAll, "trace-steps", "A:B", "steps of the trace, or runs of an inference (default 2:4)",
       setTraceSteps},
      {kAll, "interleaving", "SEED",
       "run instructions one by one in a drawn legal order, poisoning unused memory: slow, for "
       "tests",
       setInterleaving},
      {kAll, "quiet", "", "-q: print errors only", level(support::Verbosity::Quiet)},
      {kAll, "verbose", "", "-v: say how long each phase took", level(support::Verbosity::Verbose)},
      {kAll, "help", "", "this text", toggle(&Options::help, true)},
      {kAll, "version", "", "print the version", toggle(&Options::version, true)},
      {kAll, "count-collectives", "FILE", "", path(&Options::countCollectives)},
      {kAll, "isolate-arenas", "", "", toggle(&Options::isolateArenas, true)},
      {kAll, "unshared", "", "", toggle(&Options::share, false)},
      {kAll, "unchecked", "", "", toggle(&Options::checkPlan, false)},
  };
  return all;
}

// Lists flags that are reserved but not built yet, with what to use instead.
const std::vector<std::pair<std::string, std::string>> kLater = {
    {"checkpoint", "use --save DIR"},
    {"checkpoint-every", "use --save DIR"},
    {"resume", "use --weights DIR with what --save wrote"},
    {"procs", "all ranks run as threads of this process"},
};

// Splits "0.3:a.bin" into weight and path if there are several --data; a single one may have
// a weight too, unless a file of that name exists.
Status readWeights(std::vector<DataFile> &files) {
  if (files.size() == 1) {
    auto [path, colon] = std::pair(files[0].path, files[0].path.find(':'));
    if (colon != std::string::npos && readReal(path.substr(0, colon)) && !std::filesystem::exists(path))
      files[0].path = path.substr(colon + 1);
    return ok();
  }
  std::string wrong;
  double sum = 0;
  for (DataFile &file : files) {
    size_t colon = file.path.find(':');
    support::Result<double> weight = readReal(file.path.substr(0, colon));
    if (colon == std::string::npos || !weight || *weight <= 0 || colon + 1 == file.path.size()) {
      wrong += text(wrong.empty() ? "'" : ", '", file.path, "'");
      continue;
    }
    file = {file.path.substr(colon + 1), *weight};
    sum += *weight;
  }
  if (!wrong.empty())
    return error("--data: each of several is WEIGHT:FILE with a weight above 0, not ", wrong);
  return std::isfinite(sum) ? ok()
                            : Status(error("--data: the weights are too large to be added up"));
}

// Checks constraints between flags and reports all violations at once.
Status checkTogether(Options &options, const std::set<std::string> &given) {
  std::string problems;
  auto refuse = [&](bool wrong, const auto &...why) {
    if (wrong)
      problems += (problems.empty() ? "" : "; ") + text(why...);
  };
  auto has = [&](const char *name) { return given.count(name) != 0; };
  Status weights = readWeights(options.data);
  refuse(!weights, weights ? "" : weights.message());
  refuse(options.data.size() > 1 && !options.shuffle,
         "--no-shuffle is for one --data: rows of several files are mixed by drawing");
  refuse(options.minLr > options.lr, "--min-lr ", options.minLr, " is above --lr ", options.lr);
  bool constant = options.lrSchedule == LrSchedule::Constant;
  refuse(constant && has("min-lr"), "--min-lr is for --lr-schedule cosine, linear or wsd");
  refuse(options.lrSchedule != LrSchedule::Wsd && options.decaySteps,
         "--decay-steps is for --lr-schedule wsd");
  refuse(options.tokenType && options.data.empty() && options.evalData.empty(),
         "--data-dtype is for --data");
  for (const char *name : {"eval-every", "eval-batches"})
    refuse(has(name) && options.evalData.empty(), "--", name, " is for --eval-data FILE");
  refuse(options.interleaving && !options.evalData.empty(),
         "--eval-data does not go with --interleaving");
  refuse(has("eval-every") && options.evalEvery == 0, "--eval-every 0: the least is 1");
  refuse(has("eval-batches") && options.evalBatches == 0, "--eval-batches 0: the least is 1");
  return problems.empty() ? ok() : Status(error(problems));
}

// Returns the flag of that name; fails if it is unknown, not built yet or of the other kind
// of program.
support::Result<const Flag *> findFlag(const std::string &name, Programs program) {
  for (const auto &[later, instead] : kLater)
    if (name == later)
      return error("--", name, " is not built yet; ", instead);
  std::vector<std::string> names;
  bool other = false;
  for (const Flag &flag : flags()) {
    if (flag.name == name && (flag.programs & program))
      return &flag;
    other |= flag.name == name;
    if (!flag.help.empty() && (flag.programs & program))
      names.push_back(flag.name);
  }
  if (other)
    return error("--", name,
                 program == kInfer ? " is for training, this program was compiled with --infer"
                                   : " is for programs compiled with --infer, this one trains",
                 "; see --help");
  std::string meant = support::nearest(name, names);
  return error("unknown option --", name, flagText(meant.empty() ? "" : "--" + meant),
               meant.empty() ? "; see --help" : " See --help");
}

// Returns whether the word is a flag of the program, where a value might be expected.
bool isFlag(const std::string &word, Programs program) {
  std::string name = word.substr(0, word.find('='));
  return name == "-h" || name == "-q" || name == "-v" ||
         (name.rfind("--", 0) == 0 && findFlag(name.substr(2), program));
}

} // namespace

std::string_view runtime::toString(LrSchedule schedule) {
  switch (schedule) {
  case LrSchedule::Constant:
    return "constant";
  case LrSchedule::Cosine:
    return "cosine";
  case LrSchedule::Linear:
    return "linear";
  case LrSchedule::Wsd:
    return "wsd";
  }
  return "";
}

std::vector<std::string> runtime::dataFilesOf(const Options &options) {
  std::vector<std::string> files;
  auto add = [&](const std::string &path) {
    for (std::string &file : tokenFilesOf(path))
      files.push_back(std::move(file));
  };
  for (const DataFile &file : options.data)
    add(file.path);
  if (!options.evalData.empty())
    add(options.evalData);
  for (const auto &[name, path] : options.inputs)
    files.push_back(path);
  return files;
}

support::Result<Options> runtime::parseOptions(const std::vector<std::string> &arguments,
                                               planfile::Mode mode) {
  Programs program = mode == planfile::Mode::Infer ? kInfer : kTrain;
  Options options;
  std::set<std::string> given;
  const std::map<std::string, std::string> letters = {
      {"-h", "--help"}, {"-q", "--quiet"}, {"-v", "--verbose"}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string argument = arguments[i];
    if (auto letter = letters.find(argument); letter != letters.end())
      argument = letter->second;
    if (argument.size() > 1 && argument[0] == '-' && argument[1] != '-')
      return error("unknown option '", argument, "'; see --help");
    if (argument.rfind("--", 0) != 0)
      return error("unexpected argument '", argument, "'; see --help");
    size_t equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    support::Result<const Flag *> found = findFlag(name, program);
    if (!found)
      return found.takeError();
    const Flag &flag = **found;
    if (!given.insert(name).second && !flag.repeats)
      return error("--", name, " is given twice");
    std::string value;
    if (flag.value.empty() && equals != std::string::npos)
      return error("--", name, " takes no value");
    if (!flag.value.empty()) {
      if (equals != std::string::npos)
        value = argument.substr(equals + 1);
      else if (i + 1 < arguments.size() && !isFlag(arguments[i + 1], program))
        value = arguments[++i];
      else
        return error("--", name, " needs a value: ", flag.value);
    }
    if (Status s = flag.set(options, value); !s)
      return error("--", name, ": ", s.message());
  }
  if (Status s = checkTogether(options, given); !s)
    return s.takeError();
  return options;
}

std::string runtime::helpText(const std::string &name, planfile::Mode mode) {
  bool infer = mode == planfile::Mode::Infer;
  std::string help =
      infer ? text("usage: ", name, " --input NAME=x.npy ... --output DIR [options]\n\n",
                   "Runs the compiled model once on all its ranks.\n\n")
            : text("usage: ", name, " --data tokens.bin --steps N [options]\n\n",
                   "Trains the compiled model on all its ranks.\n\n");
  for (const Flag &flag : flags())
    if (!flag.help.empty() && (flag.programs & (infer ? kInfer : kTrain))) {
      std::string left = "  --" + flag.name + (flag.value.empty() ? "" : " " + flag.value);
      left.resize(std::max<size_t>(left.size() + 2, 32), ' ');
      for (char c : flag.help)
        left += c == '\n' ? "\n" + std::string(32, ' ') : std::string(1, c);
      help += left + "\n";
    }
  return help;
}
