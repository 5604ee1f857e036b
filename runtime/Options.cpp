#include "runtime/Options.h"

#include "runtime/Cpu.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numbers>

using namespace llmc;
using namespace llmc::runtime;
using support::error;
using support::ok;
using support::Status;
using support::text;

namespace {

enum Programs : uint8_t { kTrain = 1, kInfer = 2, kAll = 3 };

struct Flag {
  Programs programs; // that take it
  std::string name;
  std::string value; // placeholder; empty: takes none
  std::string help;  // empty: hidden
  std::function<Status(Options &, const std::string &)> set;
};

support::Result<double> readReal(const std::string &value) {
  char *end = nullptr;
  double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !std::isfinite(number))
    return error("'", value, "' is not a number");
  return number;
}

support::Result<uint64_t> readWhole(const std::string &value) {
  bool digits = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  errno = 0;
  uint64_t number = digits ? std::strtoull(value.c_str(), nullptr, 10) : 0;
  if (!digits || errno == ERANGE)
    return error("'", value, "' is not a whole number");
  return number;
}

// A number in [least, most); the last is out of range.
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

template <class T>
auto whole(T Options::*field) {
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

// A:B, or A alone.
Status setTraceSteps(Options &options, const std::string &value) {
  size_t colon = value.find(':');
  support::Result<uint64_t> first = readWhole(value.substr(0, colon));
  support::Result<uint64_t> last = colon == std::string::npos ? first : readWhole(value.substr(colon + 1));
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

Status setSchedule(Options &options, const std::string &value) {
  if (value != "constant" && value != "cosine")
    return error("'", value, "' is not one of constant, cosine");
  options.cosine = value == "cosine";
  return ok();
}

Status setCpu(Options &options, const std::string &value) {
  std::string names;
  for (const CpuVersion &version : cpuVersions()) {
    names += (names.empty() ? "" : ", ") + std::string(version.name);
    if (value == version.name)
      options.cpu = value;
  }
  return options.cpu == value ? Status(ok()) : error("'", value, "' is not one of ", names);
}

const std::vector<Flag> &flags() {
  static const std::vector<Flag> all = {
      {kTrain, "data", "FILE", "raw u16 tokens (u32 if the vocabulary exceeds 65,536); rows of seq + 1",
       path(&Options::data)},
      {kTrain, "input", "NAME=FILE.npy",
       "rows [N, ...] of an input, in place of --data; repeat per input", setInput},
      {kInfer, "input", "NAME=FILE.npy", "an array for an input; repeat per input", setInput},
      {kInfer, "output", "DIR", "where every output goes as NAME.npy; made if missing",
       path(&Options::output)},
      {kInfer, "repeat", "N", "run N times more and print the latency", whole(&Options::repeat)},
      {kTrain, "no-shuffle", "", "keep the rows of --data in order", toggle(&Options::shuffle, false)},
      {kTrain, "steps", "N", "steps to train (default: once over the data)", setSteps},
      {kAll, "seed", "S", "seed of all that is drawn (default 0)",
       whole(&Options::seed)},
      {kAll, "weights", "FILE|DIR|random", "safetensors to start from (default: the model's own, else drawn)",
       path(&Options::weights)},
      {kTrain, "lr", "X", "learning rate (default 3e-4)", real(&Options::lr, 0, HUGE_VAL)},
      {kTrain, "lr-schedule", "constant|cosine", "after the warm-up (default constant)", setSchedule},
      {kTrain, "min-lr", "X", "where the cosine ends (default 0)", real(&Options::minLr, 0, HUGE_VAL)},
      {kTrain, "warmup", "N", "steps of linear warm-up (default 0)", whole(&Options::warmup)},
      {kTrain, "weight-decay", "X", "on tensors of two or more dims (default 0.1)",
       real(&Options::weightDecay, 0, HUGE_VAL)},
      {kTrain, "beta1", "X", "AdamW (default 0.9)", real(&Options::beta1, 0, 1)},
      {kTrain, "beta2", "X", "AdamW (default 0.95)", real(&Options::beta2, 0, 1)},
      {kTrain, "eps", "X", "AdamW (default 1e-8)", real(&Options::eps, 0, HUGE_VAL)},
      {kTrain, "clip", "X", "largest norm of the gradient (default 1, 0 is off)",
       real(&Options::clip, 0, HUGE_VAL)},
      {kTrain, "metrics", "FILE", "a JSON line a step: step loss grad_norm lr tokens step_time_s tokens_per_s",
       path(&Options::metrics)},
      {kTrain, "dump", "FILE", "safetensors with loss, grad:NAME (first step) and param:NAME (at the end)",
       path(&Options::dump)},
      {kTrain, "save", "DIR", "model.safetensors at the end and on Ctrl-C", path(&Options::save)},
      {kAll, "workers", "N", "threads that drive the ranks (default: cores, at most ranks)",
       whole(&Options::workers)},
      {kAll, "threads", "N", "threads of one rank's kernels (default: the plan's, else cores / ranks)",
       whole(&Options::threads)},
      {kAll, "cpu", "avx2|avx512", "kernels to run (default: the best that the processor has)",
       setCpu},
      {kAll, "no-library", "", "multiply matrices with the program's own kernels",
       toggle(&Options::library, false)},
      {kAll, "no-pin", "", "let the system move threads between cores (LLMC_NO_PIN=1 does the same)",
       toggle(&Options::pin, false)},
      {kAll, "profile", "", "measure every instruction, print at the end where the time went",
       toggle(&Options::profile, true)},
      {kAll, "trace", "FILE", "what ran when, as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing",
       path(&Options::trace)},
      {kAll, "trace-steps", "A:B", "steps of the trace, or runs of an inference (default 2:4)",
       setTraceSteps},
      {kAll, "help", "", "this text", toggle(&Options::help, true)},
      {kAll, "version", "", "print the version", toggle(&Options::version, true)},
      {kAll, "count-collectives", "FILE", "", path(&Options::countCollectives)},
      {kAll, "isolate-arenas", "", "", toggle(&Options::isolateArenas, true)},
      {kAll, "unshared", "", "", toggle(&Options::share, false)},
      {kAll, "interleaving", "SEED", "", setInterleaving},
      {kAll, "unchecked", "", "", toggle(&Options::checkPlan, false)},
  };
  return all;
}

// Names of the contract that are not built yet.
const std::vector<std::pair<std::string, std::string>> kLater = {
    {"checkpoint", "use --save DIR"},
    {"checkpoint-every", "use --save DIR"},
    {"resume", "use --weights DIR with what --save wrote"},
    {"procs", "all ranks run as threads of this process"},
};

} // namespace

support::Result<Options> runtime::parseOptions(const std::vector<std::string> &arguments,
                                               planfile::Mode mode) {
  Programs program = mode == planfile::Mode::Infer ? kInfer : kTrain;
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string argument = arguments[i];
    if (argument == "-h")
      argument = "--help";
    if (argument.rfind("--", 0) != 0)
      return error("unexpected argument '", argument, "'; see --help");
    size_t equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    for (const auto &[later, instead] : kLater)
      if (name == later)
        return error("--", name, " is not built yet; ", instead);
    auto flag = std::find_if(flags().begin(), flags().end(),
                             [&](const Flag &one) {
                               return one.name == name && (one.programs & program);
                             });
    bool other = std::any_of(flags().begin(), flags().end(),
                             [&](const Flag &one) { return one.name == name; });
    if (flag == flags().end() && other)
      return error("--", name,
                   program == kInfer ? " is for training, this program was compiled with --infer"
                                     : " is for programs compiled with --infer, this one trains",
                   "; see --help");
    if (flag == flags().end())
      return error("unknown option --", name, "; see --help");
    std::string value;
    if (flag->value.empty() && equals != std::string::npos)
      return error("--", name, " takes no value");
    if (!flag->value.empty()) {
      if (equals != std::string::npos)
        value = argument.substr(equals + 1);
      else if (i + 1 < arguments.size())
        value = arguments[++i];
      else
        return error("--", name, " needs a value: ", flag->value);
    }
    if (Status s = flag->set(options, value); !s)
      return error("--", name, ": ", s.message());
  }
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
      help += left + flag.help + "\n";
    }
  return help;
}

double runtime::learningRate(const Options &options, uint64_t step, uint64_t steps) {
  if (step < options.warmup)
    return options.lr * double(step + 1) / double(options.warmup);
  if (!options.cosine)
    return options.lr;
  uint64_t length = steps > options.warmup ? steps - options.warmup : 1;
  double done = std::min(1.0, double(step - options.warmup) / double(length));
  return options.minLr +
         (options.lr - options.minLr) * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
}
