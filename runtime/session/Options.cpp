#include "runtime/session/Options.h"

#include "lib/support/FlagSetters.h"
#include "lib/support/FlagTable.h"
#include "runtime/compute/Cpu.h"

#include <cmath>
#include <filesystem>

using namespace llmc;
using namespace llmc::runtime;
using support::choose;
using support::GivenFlag;
using support::path;
using support::Problems;
using support::put;
using support::real;
using support::text;
using support::whole;

namespace {

enum Programs : unsigned { kTrain = 1, kInfer = 2, kAll = 3 };

void setInput(Options &options, const GivenFlag &given, Problems &problems) {
  const std::string &value = given.value;
  size_t at = value.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == value.size())
    problems.usage("--input: '", value, "' is not NAME=FILE.npy");
  else if (!options.inputs.emplace(value.substr(0, at), value.substr(at + 1)).second)
    problems.usage("--input: the input '", value.substr(0, at), "' is given twice");
}

// Reads A:B, or A alone.
void setTraceSteps(Options &options, const GivenFlag &given, Problems &problems) {
  std::string_view value = given.value;
  size_t colon = value.find(':');
  auto first = support::parseWhole(value.substr(0, colon));
  auto last = colon == std::string::npos ? first : support::parseWhole(value.substr(colon + 1));
  if (!first || !last || *first == 0 || *last < *first)
    problems.usage("--trace-steps: '", value, "' is not FIRST:LAST, counted from 1");
  else
    options.traceSteps = {*first, *last};
}

// Adds a file; what its name says waits for how many there are.
void addData(Options &options, const GivenFlag &given, Problems &) {
  options.data.push_back({given.value, 1});
}

std::vector<std::string> namesOfCpus() {
  std::vector<std::string> names;
  for (const CpuVersion &version : cpuVersions())
    names.emplace_back(version.name);
  return names;
}

constexpr LrSchedule kSchedules[] = {LrSchedule::Constant, LrSchedule::Cosine, LrSchedule::Linear,
                                     LrSchedule::Wsd};

std::vector<std::string> namesOfSchedules() {
  std::vector<std::string> names;
  for (LrSchedule schedule : kSchedules)
    names.emplace_back(toString(schedule));
  return names;
}

using Entries = std::vector<support::FlagTable<Options>::Entry>;

// Declares the flags that name files to read and write.
Entries dataFlags() {
  return {
      {{"--data", kTrain, "FILE",
        "raw u16 tokens (u32 if the vocabulary exceeds 65,536), or PREFIX of Megatron's .bin and\n"
        ".idx; rows of seq + 1; several files: --data WEIGHT:FILE for each", {.repeats = true}},
       addData},
      {{"--data-dtype", kTrain, nullptr, "of raw tokens",
        {.standard = "as the vocabulary needs", .values = {"u16", "u32"},
         .needs = {"--data", "--eval-data"}}},
       choose(&Options::tokenType,
              std::vector{support::ElementType::U16, support::ElementType::U32})},
      {{"--input", kTrain, "NAME=FILE.npy",
        "rows [N, ...] of an input, in place of --data; repeat per input", {.repeats = true}},
       setInput},
      {{"--input", kInfer, "NAME=FILE.npy", "an array for an input; repeat per input",
        {.repeats = true}},
       setInput},
      {{"--output", kInfer, "DIR", "where every output goes as NAME.npy; made if missing"},
       path(&Options::output)},
      {{"--repeat", kInfer, "N", "run N times more and print the latency"},
       whole(&Options::repeat)},
      {{"--no-shuffle", kTrain, nullptr, "keep the rows of --data in order"},
       put(&Options::shuffle, false)},
      {{"--steps", kTrain, "N", "steps to train", {.standard = "once over the data"}},
       whole(&Options::steps)},
      {{"--seed", kAll, "S", "seed of all that is drawn", {.standard = "0"}},
       whole(&Options::seed)},
      {{"--weights", kAll, "FILE|DIR|random", "safetensors to start from",
        {.standard = "the model's own, else drawn"}},
       path(&Options::weights)},
  };
}

Entries optimizerFlags() {
  return {
      {{"--lr", kTrain, "X", "learning rate", {.standard = "3e-4"}}, real(&Options::lr)},
      {{"--lr-schedule", kTrain, "NAME",
        "after the warm-up: constant, cosine, linear, wsd (stable, then a linear decay)",
        {.standard = "constant", .values = namesOfSchedules()}},
       choose(&Options::lrSchedule,
              std::vector<LrSchedule>(std::begin(kSchedules), std::end(kSchedules)))},
      {{"--min-lr", kTrain, "X",
        "what cosine, linear and wsd lead to: the rate after the last step", {.standard = "0"}},
       real(&Options::minLr)},
      {{"--decay-steps", kTrain, "N", "steps of wsd's decay", {.standard = "a tenth of all"}},
       whole(&Options::decaySteps)},
      {{"--warmup", kTrain, "N", "steps of linear warm-up", {.standard = "0"}},
       whole(&Options::warmup)},
      {{"--weight-decay", kTrain, "X", "on tensors of two or more dims", {.standard = "0.1"}},
       real(&Options::weightDecay)},
      {{"--beta1", kTrain, "X", "AdamW", {.standard = "0.9"}}, real(&Options::beta1, {.end = 1})},
      {{"--beta2", kTrain, "X", "AdamW", {.standard = "0.95"}}, real(&Options::beta2, {.end = 1})},
      {{"--eps", kTrain, "X", "AdamW", {.standard = "1e-8"}}, real(&Options::eps, {.open = true})},
      {{"--clip", kTrain, "X", "largest norm of the gradient; 0 is off", {.standard = "1"}},
       real(&Options::clip)},
  };
}

Entries resultFlags() {
  return {
      {{"--eval-data", kTrain, "FILE", "tokens whose loss is told at the end; rows in order",
        {.excludes = {"--interleaving"}}},
       path(&Options::evalData)},
      {{"--eval-every", kTrain, "N", "and after every N steps", {.needs = {"--eval-data"}}},
       whole(&Options::evalEvery, 1)},
      {{"--eval-batches", kTrain, "K", "only its first K global batches",
        {.needs = {"--eval-data"}}},
       whole(&Options::evalBatches, 1)},
      {{"--metrics", kTrain, "FILE",
        "a JSON line a step: step loss grad_norm lr tokens step_time_s tokens_per_s"},
       path(&Options::metrics)},
      {{"--force", kTrain, nullptr, "replace the file of --metrics, if there is one"},
       put(&Options::force, true)},
      {{"--dump", kTrain, "FILE",
        "safetensors with loss, grad:NAME (first step), param:NAME (at the end); a tensor\n"
        "of several names is there under each; and route:ROUTER, the experts that each\n"
        "token took in the last step, [rows, tokens, choices], -1 for a dropped one"},
       path(&Options::dump)},
      {{"--save", kTrain, "DIR",
        "model.safetensors at the end, on a signal, and of the last good step where a run fails"},
       path(&Options::save)},
  };
}

Entries runFlags() {
  return {
      {{"--workers", kAll, "N", "threads that drive the ranks",
        {.standard = "cores, at most ranks"}},
       whole(&Options::workers, 1, 4096)},
      {{"--threads", kAll, "N", "threads of one rank's kernels",
        {.standard = "the plan's, else cores / ranks"}},
       whole(&Options::threads, 1, 4096)},
      {{"--cpu", kAll, nullptr, "kernels to run",
        {.standard = "the best that the processor has", .values = namesOfCpus()}},
       support::word(&Options::cpu)},
      {{"--no-library", kAll, nullptr, "multiply matrices with the program's own kernels"},
       put(&Options::library, false)},
      {{"--no-pin", kAll, nullptr,
        "let the system move threads between cores (LLMC_NO_PIN=1 does the same)"},
       put(&Options::pin, false)},
      {{"--profile", kAll, nullptr,
        "measure every instruction, print at the end where the time went"},
       put(&Options::profile, true)},
      {{"--trace", kAll, "FILE",
        "what ran when, as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing"},
       path(&Options::trace)},
      {{"--trace-steps", kAll, "A:B", "steps of the trace, or runs of an inference",
        {.standard = "2:4"}},
       setTraceSteps},
      {{"--interleaving", kAll, "SEED",
        "run instructions one by one in a drawn legal order, poisoning unused memory: slow,\n"
        "for tests"},
       whole(&Options::interleaving)},
      {{"--quiet", kAll, nullptr, "print errors only", {.brief = "-q", .excludes = {"--verbose"}}},
       put(&Options::verbosity, support::Verbosity::Quiet)},
      {{"--verbose", kAll, nullptr, "say how long each phase took", {.brief = "-v"}},
       put(&Options::verbosity, support::Verbosity::Verbose)},
      {{"--help", kAll, nullptr, "this text", {.brief = "-h"}}, put(&Options::help, true)},
      {{"--version", kAll, nullptr, "print the version", {.brief = "-V"}},
       put(&Options::version, true)},
  };
}

// For tests, and names that are not built yet.
Entries hiddenFlags() {
  auto later = [](const char *name, const char *value, const char *instead) {
    return Entries::value_type{
        {name, kAll, value, nullptr,
         {.hidden = true, .refusal = text("is not built yet; ", instead)}}};
  };
  return {
      {{"--count-collectives", kAll, "FILE", nullptr, {.hidden = true}},
       path(&Options::countCollectives)},
      {{"--profile-rows", kAll, "FILE", nullptr, {.hidden = true}}, path(&Options::profileRows)},
      {{"--isolate-arenas", kAll, nullptr, nullptr, {.hidden = true}},
       put(&Options::isolateArenas, true)},
      {{"--unshared", kAll, nullptr, nullptr, {.hidden = true}}, put(&Options::share, false)},
      {{"--unchecked", kAll, nullptr, nullptr, {.hidden = true}}, put(&Options::checkPlan, false)},
      later("--checkpoint", "DIR", "use --save DIR"),
      later("--checkpoint-every", "N", "use --save DIR"),
      later("--resume", "DIR", "use --weights DIR with what --save wrote"),
      later("--procs", "N", "all ranks run as threads of this process"),
  };
}

const support::FlagTable<Options> &table() {
  static const support::FlagTable<Options> all = {dataFlags(), optimizerFlags(), resultFlags(),
                                                  runFlags(), hiddenFlags()};
  return all;
}

// Reads "0.3:a.bin" of several --data; of one, where no file is called so.
void readWeights(std::vector<DataFile> &files, Problems &problems) {
  if (files.size() == 1) {
    auto [path, colon] = std::pair(files[0].path, files[0].path.find(':'));
    std::optional<double> weight = support::parseReal(path.substr(0, colon));
    if (colon == std::string::npos || !weight || std::filesystem::exists(path))
      return;
    if (*weight <= 0)
      problems.usage("--data: the weight of WEIGHT:FILE is above 0, not '", path, "'");
    files[0].path = path.substr(colon + 1);
    return;
  }
  std::string wrong;
  double sum = 0;
  for (DataFile &file : files) {
    size_t colon = file.path.find(':');
    std::optional<double> weight = support::parseReal(file.path.substr(0, colon));
    if (colon == std::string::npos || !weight || *weight <= 0 || colon + 1 == file.path.size()) {
      wrong += text(wrong.empty() ? "'" : ", '", file.path, "'");
      continue;
    }
    file = {file.path.substr(colon + 1), *weight};
    sum += *weight;
  }
  if (!wrong.empty())
    problems.usage("--data: each of several is WEIGHT:FILE with a weight above 0, not ", wrong);
  else if (!std::isfinite(sum))
    problems.usage("--data: the weights are too large to be added up");
}

// Finds values that contradict each other.
void checkTogether(const Options &options, const support::Arguments &given, Problems &problems) {
  if (options.data.size() > 1 && !options.shuffle)
    problems.usage(
        "--no-shuffle is for one --data: rows of several files are mixed by drawing");
  if (options.minLr > options.lr)
    problems.usage("--min-lr ", options.minLr, " is above --lr ", options.lr);
  if (options.lrSchedule == LrSchedule::Constant && given.has("--min-lr"))
    problems.usage("--min-lr is for --lr-schedule cosine, linear or wsd");
  if (options.lrSchedule != LrSchedule::Wsd && options.decaySteps)
    problems.usage("--decay-steps is for --lr-schedule wsd");
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

Options runtime::parseOptions(const std::vector<std::string> &arguments, planfile::Mode mode,
                              Problems &problems) {
  bool infers = mode == planfile::Mode::Infer;
  support::Invocation invocation{infers ? kInfer : kTrain, "--help", [&](unsigned) {
    return infers ? "is for training, this program was compiled with --infer"
                  : "is for programs compiled with --infer, this one trains";
  }};
  Options options;
  support::Arguments given = parseFlags(table().flags(), arguments, invocation, problems);
  for (size_t i = 0; i < given.words.size() && given.isComplete; ++i)
    problems.usage("unexpected argument '", given.words[i], "'; --help lists all");
  table().set(given, options, problems);
  readWeights(options.data, problems);
  if (problems.messages.empty()) // else what was not understood might mend it
    checkTogether(options, given, problems);
  if (options.help || options.version)
    problems = {}; // what is asked for is clear
  return options;
}

std::string runtime::helpText(const std::string &name, planfile::Mode mode) {
  bool infers = mode == planfile::Mode::Infer;
  return (infers ? text("usage: ", name, " --input NAME=x.npy ... --output DIR [options]\n\n",
                        "Runs the compiled model once on all its ranks.\n\n")
                 : text("usage: ", name, " --data tokens.bin --steps N [options]\n\n",
                        "Trains the compiled model on all its ranks.\n\n")) +
         flagsHelp(table().flags(), infers ? kInfer : kTrain);
}
