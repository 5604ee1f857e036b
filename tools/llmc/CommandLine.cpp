// The command line of `llmc`.
#include "tools/llmc/CommandLine.h"

#include "passes/6-emit/cuda/Cuda.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <sstream>

namespace llmc {
namespace {

std::optional<int64_t> parseNumber(const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

// A choice whose other values belong to later work: named and refused, never ignored.
struct Fixed {
  const char *flag;
  std::vector<std::string> works;
  const char *use; // the value to use
};
const std::vector<Fixed> &fixedChoices() {
  static const std::vector<Fixed> choices = {
      {"--target", {"cpu"}, "cpu"},
      {"--zero", {"0"}, "0"},
      {"--sequence-parallel", {"off"}, "off"},
      {"--cp", {"1"}, "1"},
      {"--ep", {"1"}, "1"},
      {"--etp", {"1"}, "1"},
      {"--virtual-stages", {"1"}, "1"},
      {"--recompute", {"none"}, "none"},
      {"--precision", {"fp32"}, "fp32"},
      {"--grad-dtype", {"fp32"}, "fp32"},
      {"--reduce-dtype", {"fp32"}, "fp32"},
      {"--attention", {"flash"}, "flash"},
      {"--overlap", {"on"}, "on"},
      {"--software", {"llmc"}, "llmc"},
      {"--loss", {"cross-entropy"}, "cross-entropy"},
      {"--dropout", {"0", "0.0"}, "0"},
  };
  return choices;
}

// Choices about training, and what to do about them with --infer.
struct TrainingOnly {
  const char *flag, *instead;
};
constexpr TrainingOnly kTrainingOnly[] = {
    {"--global-batch", "the batch is a dimension of the model: bind it with --dim NAME=N"},
    {"--micro-batch", "the batch is a dimension of the model: bind it with --dim NAME=N"},
    {"--schedule", "each stage runs once; leave it out"},
    {"--optimizer", "nothing is updated; leave it out"},
    {"--loss", "there is no loss; leave it out"},
    {"--dropout", "nothing is dropped; leave it out"},
    {"--recompute", "nothing is kept for a backward pass; leave it out"},
    {"--grad-dtype", "there are no gradients; leave it out"},
};

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
  void number(const std::string &flag, const std::string &text, int64_t &target, int64_t least);
  void mesh(const std::string &text);
  void namedMesh(const std::string &text);
  void meshSize(const std::string &flag, planfile::AxisRole role, const std::string &text);
  void dims(const std::string &text);
  void cudaKernels(const std::string &text);
  void option(const std::string &flag, const std::string &value);
  bool verifyOption(const std::string &flag, const std::string &value);
  void checkInference();
  void checkMesh();
  void finish();

  const std::vector<std::string> &arguments;
  ParsedCommandLine result;
  CompileOptions &options = result.line.options;
  std::vector<std::string> given; // flags, as they came
};

void Parser::number(const std::string &flag, const std::string &text, int64_t &target,
                    int64_t least) {
  if (text == "auto")
    return refuse(flag + " auto is not built yet; give a number");
  auto value = parseNumber(text);
  if (!value || *value < least || *value > (int64_t(1) << 40))
    return usage(flag + " needs a whole number of at least " + std::to_string(least) + ", got '" +
                 text + "'");
  target = *value;
}

void Parser::namedMesh(const std::string &text) {
  std::stringstream parts(text);
  std::string part;
  while (std::getline(parts, part, ',')) {
    size_t equal = part.find('=');
    std::string name = part.substr(0, equal);
    if (equal == std::string::npos)
      return usage("--mesh: '" + part + "' is no axis=size");
    if (auto role = planfile::roleNamed(name))
      meshSize("--mesh " + name, *role, part.substr(equal + 1));
    else
      usage("--mesh: unknown axis '" + name + "'; axes are " + planfile::allRoleNames());
  }
}

void Parser::meshSize(const std::string &flag, planfile::AxisRole role, const std::string &text) {
  number(flag, text, options.of(role), 1);
}

// Experts and long sequences have no ranks of their own yet; what is asked for must
// agree all the same.
void Parser::checkMesh() {
  for (const Fixed &choice : fixedChoices())
    if (auto role = planfile::roleNamed(choice.flag + 2); role && options.of(*role) != 1)
      refuse(std::string(choice.flag) + " " + std::to_string(options.of(*role)) +
             " is not built yet; use " + choice.flag + " " + choice.use);
  std::vector<std::string> errors;
  planfile::deriveAxes(options, errors);
  for (const std::string &error : errors)
    refuse("--mesh: " + error);
}

// 8 is dp; 4x2 is dp x tp; 8x16x8 is dp x pp x tp.
void Parser::mesh(const std::string &text) {
  if (text == "auto")
    return refuse("--mesh auto is not built yet; name the sizes, for example --mesh 2x2x2 (dp x pp x tp)");
  if (text.find('=') != std::string::npos)
    return namedMesh(text);
  std::vector<int64_t> sizes;
  std::stringstream parts(text);
  std::string part;
  while (std::getline(parts, part, 'x')) {
    auto value = parseNumber(part);
    if (!value || *value < 1 || *value > 1 << 20)
      return usage("--mesh needs sizes of at least 1 joined by x, got '" + text + "'");
    sizes.push_back(*value);
  }
  if (sizes.empty() || sizes.size() > 3 || text.back() == 'x')
    return usage("--mesh needs one to three sizes (dp, dp x tp, dp x pp x tp), got '" + text + "'");
  options.dp = sizes[0];
  if (sizes.size() == 2)
    options.tp = sizes[1];
  if (sizes.size() == 3) {
    options.pp = sizes[1];
    options.tp = sizes[2];
  }
}

// Flags of `verify` alone; false: not one of them.
bool Parser::verifyOption(const std::string &flag, const std::string &value) {
  CommandLine &line = result.line;
  if (flag == "--after") {
    line.after = parsePhase(value);
    if (!line.after || *line.after == Phase::Import || *line.after == Phase::Emit)
      usage("--after is one of raise, train, shard, partition, schedule, got '" + value + "'");
  } else if (flag == "--seed") {
    number(flag, value, line.seed.emplace(), 0);
  } else if (flag == "--twin") {
    if (value != "auto" && value != "on" && value != "off")
      usage("--twin is one of auto, on, off, got '" + value + "'");
    line.twin = value == "on"    ? CommandLine::Twin::On
                : value == "off" ? CommandLine::Twin::Off
                                 : CommandLine::Twin::Auto;
  } else if (flag == "--draws") {
    number(flag, value, line.draws, 1);
  } else if (flag == "--interleavings") {
    number(flag, value, line.interleavings, 1);
  } else if (flag == "--mutants") {
    line.mutate = true;
    number(flag, value, line.mutants, 1);
  } else {
    return false;
  }
  return true;
}

// name=value, or several joined by commas.
void Parser::dims(const std::string &text) {
  std::stringstream parts(text);
  std::string part;
  while (std::getline(parts, part, ',')) {
    size_t equal = part.rfind('=');
    int64_t size = 0;
    if (equal == std::string::npos || equal == 0)
      return usage("--dim needs name=value, got '" + part + "'");
    std::string name = part.substr(0, equal);
    number("--dim " + name, part.substr(equal + 1), size, 0); // 0: an empty cache
    options.dims[name] = size;
  }
}

// sm_80,sm_90 or all.
void Parser::cudaKernels(const std::string &text) {
  if (result.line.command != "compile")
    return usage("--cuda-kernels belongs to llmc compile");
  std::vector<std::string> &chips = options.cudaKernels;
  chips.clear();
  std::stringstream parts(text);
  std::string part, known;
  for (llvm::StringRef chip : emit::kCudaChips)
    known += (known.empty() ? "" : ", ") + chip.str();
  while (std::getline(parts, part, ',')) {
    bool found = false;
    for (llvm::StringRef chip : emit::kCudaChips)
      if (part == "all" || part == chip) {
        found = true;
        if (std::find(chips.begin(), chips.end(), chip.str()) == chips.end())
          chips.push_back(chip.str());
      }
    if (!found)
      return usage("--cuda-kernels: chips are " + known + " or all, got '" + part + "'");
  }
  if (chips.empty())
    usage("--cuda-kernels needs chips: " + known + " or all");
}

void Parser::option(const std::string &flag, const std::string &value) {
  given.push_back(flag);
  if (result.line.command == "verify" && verifyOption(flag, value))
    return;
  if (flag == "--target" && value == "cuda")
    return refuse("--target cuda is not built yet; use --target cpu, and --cuda-kernels all to add "
                  "kernels that scripts/gpu-check.sh runs on a card");
  if (auto role = flag.rfind("--", 0) == 0 ? planfile::roleNamed(flag.substr(2)) : std::nullopt)
    return meshSize(flag, *role, value);
  for (const Fixed &choice : fixedChoices())
    if (flag == choice.flag) {
      for (const std::string &works : choice.works)
        if (value == works)
          return;
      return refuse(flag + " " + value + " is not built yet; use " + flag + " " + choice.use);
    }
  auto oneOf = [&](std::initializer_list<const char *> values) {
    std::string all;
    for (const char *v : values) {
      if (value == v)
        return true;
      all += (all.empty() ? "" : ", ") + std::string(v);
    }
    usage(flag + " is one of " + all + ", got '" + value + "'");
    return false;
  };
  if (flag == "--mesh")
    return mesh(value);
  if (flag == "--micro-batch")
    return number(flag, value, options.microBatch, 1);
  if (flag == "--global-batch")
    return number(flag, value, options.globalBatch, 1);
  if (flag == "--seq")
    return number(flag, value, options.sequence, 1);
  if (flag == "--seed") {
    int64_t ignored = 0;
    number(flag, value, ignored, 0);
    return usage("--seed belongs to the program that is made: ./OUT --seed " + value);
  }
  if (flag == "--schedule") {
    if (value == "interleaved" || value == "zero-bubble" || value == "auto")
      return refuse("--schedule " + value + " is not built yet; use --schedule 1f1b or gpipe");
    if (oneOf({"gpipe", "1f1b"}))
      options.schedule = value == "gpipe" ? Schedule::GPipe : Schedule::OneFOneB;
    return;
  }
  if (flag == "--optimizer") {
    if (oneOf({"sgd", "adamw"}))
      options.optimizer = value == "sgd" ? Optimizer::Sgd : Optimizer::AdamW;
    return;
  }
  if (flag == "--tie") {
    if (oneOf({"auto", "off", "exact"}))
      options.tie = value == "auto" ? Tie::Auto : value == "off" ? Tie::Off : Tie::Exact;
    return;
  }
  if (flag == "--raise") {
    if (oneOf({"on", "off"}))
      options.raise = value == "on";
    return;
  }
  if (flag == "--weights") {
    options.weights = value;
    return;
  }
  if (flag == "--dump-phases") {
    options.dumpFolder = value;
    return;
  }
  if (flag == "--dim")
    return dims(value);
  if (flag == "--cuda-kernels")
    return cudaKernels(value);
  if (flag == "--compile-to" || flag == "--compile-from") {
    auto phase = parsePhase(value);
    if (!phase)
      return usage(flag + " is one of raise, train, shard, partition, schedule, emit, got '" +
                   value + "'");
    (flag == "--compile-to" ? result.line.compileTo : result.line.compileFrom) = *phase;
    return;
  }
  if (flag == "-o" || flag == "--output") {
    options.output = value;
    return;
  }
  usage("unknown option '" + flag + "'; see llmc " + result.line.command + " --help");
}

void Parser::checkInference() {
  bool train = false;
  for (const std::string &flag : given)
    train |= flag == "--train";
  if (train)
    usage("--train and --infer exclude each other");
  for (const TrainingOnly &one : kTrainingOnly)
    for (const std::string &flag : given)
      if (flag == one.flag) {
        refuse(flag + " is for training; with --infer " + one.instead);
        break;
      }
}

void Parser::finish() {
  CommandLine &line = result.line;
  if (options.infer && !line.help)
    checkInference();
  if (!line.help && !result.wrongUsage)
    checkMesh();
  if (line.help || !result.errors.empty())
    return;
  if (options.model.empty() && !line.draws)
    return usage("llmc " + line.command + " needs a model: an ONNX file or a config.json");
  if (line.mutate && (line.draws || line.after))
    usage("--mutate is about the plan of one model; leave out --draws and --after");
  if (line.mutate && options.model.ends_with(".mlir"))
    refuse("--mutate needs a model, not a dump");
  if (line.command == "compile" && options.output.empty())
    usage("llmc compile needs -o OUT");
  if (!options.raise && options.pp > 1)
    refuse("--raise off does not fold layers, so there are none to divide; use pp = 1");
  int64_t rows = options.batchRows();
  if (options.globalBatch && options.globalBatch % rows != 0) {
    int64_t below = options.globalBatch / rows * rows;
    refuse("global batch " + std::to_string(options.globalBatch) + " is no multiple of micro-batch x dp = " +
           std::to_string(rows) + "; the nearest valid sizes are " +
           (below ? std::to_string(below) + " and " : "") + std::to_string(below + rows));
  }
}

ParsedCommandLine Parser::run() {
  if (arguments.empty()) {
    usage("needs a command: compile, inspect, plan, verify, explain, trace");
    return result;
  }
  CommandLine &line = result.line;
  line.command = arguments[0];
  for (size_t i = 1; i < arguments.size(); ++i) {
    std::string flag = arguments[i];
    if (flag == "--help" || flag == "-h") {
      line.help = true;
    } else if (flag == "--json") {
      line.json = true;
    } else if (flag == "--mutate" && line.command == "verify") {
      line.mutate = true;
    } else if (flag == "--train") {
      given.push_back(flag);
    } else if (flag == "--infer") {
      options.infer = true;
    } else if (flag.size() > 1 && flag[0] == '-') {
      std::string value;
      size_t equal = flag.rfind("--", 0) == 0 ? flag.find('=') : std::string::npos;
      if (equal != std::string::npos) {
        value = flag.substr(equal + 1);
        flag = flag.substr(0, equal);
      } else if (i + 1 < arguments.size()) {
        value = arguments[++i];
      } else {
        usage(flag + " needs a value");
        continue;
      }
      option(flag, value);
    } else if (options.model.empty()) {
      options.model = flag;
    } else if (line.command == "explain" && line.subject.empty()) {
      line.subject = flag;
    } else {
      usage("more than one model: '" + options.model + "' and '" + flag + "'");
    }
  }
  finish();
  return result;
}

} // namespace

ParsedCommandLine parseCommandLine(const std::vector<std::string> &arguments) {
  return Parser(arguments).run();
}

std::string builtChoices() {
  std::string text;
  for (const Fixed &choice : fixedChoices())
    text += (text.empty() ? "" : ", ") + std::string(choice.flag).substr(2) + " " + choice.use;
  return text;
}

std::string helpText(const std::string &command) {
  if (command == "inspect")
    return R"(usage: llmc inspect MODEL|OUT [--json] [--infer] [choices of compile]

What is in a model (ONNX, config.json) or in a program made by llmc compile.

  --infer                the model as compile --infer takes it: all of its inputs and outputs
  --dim NAME=N           binds a symbolic dimension of the model
  --json                 one object
)";
  if (command == "explain")
    return R"(usage: llmc explain OUT [NAME] [--json]

Why a program made by llmc compile moves what it moves between ranks, and how its
ops are cut. Without NAME: the collectives and messages of a step, each with a name.

  NAME                   a collective or message by that name, a node or parameter of
                         the model, or a kind of op (matmul, attention)
  --json                 one object
)";
  if (command == "compile")
    return R"(usage: llmc compile MODEL -o OUT [options]

MODEL is an ONNX file, a config.json, or a folder that holds one. OUT is one
program for all ranks of the mesh: it trains MODEL, or runs it once a start.

  --train | --infer      OUT trains; OUT takes every input of MODEL as it is and
                         writes every output                                [--train]
  --mesh 8 | 4x2 | 8x16x8 | dp=8,pp=16,tp=8   ranks: dp; dp x tp; dp x pp x tp     [1]
  --dp N --pp N --tp N                         the same, one by one; also cp, ep, etp (1
                         each as yet) and edp, with dp x cp x tp = edp x ep x etp
  --micro-batch N        rows of one micro-batch of one data-parallel rank       [1]
  --global-batch N       rows of a step                     [4 x dp x pp x micro-batch]
  --seq N                tokens of a row                    [bound dim, or min(context, 4096)]
  --dim NAME=N[,NAME=N]  binds symbolic dimensions of the model; with --infer the
                         batch too, which dp divides
  --schedule 1f1b|gpipe                                                        [1f1b]
  --optimizer adamw|sgd                                                        [adamw]
  --weights random|FILE|DIR   where the program finds its weights            [what MODEL holds]
  --tie auto|off|exact   auto: equal embedding and head are one parameter; a vector that
                         several nodes of an ONNX file use is a parameter each
                         off: embedding and head are two; exact: as auto, but what
                         the file holds once is one parameter                  [auto]
  --raise on|off         recognise blocks, fold layers                         [on]
  --cuda-kernels all | sm_80,sm_90,sm_100   also carries its kernels for these chips,
                         for scripts/gpu-check.sh; needs a CUDA assembler      [none]
  --compile-to PHASE     stop after raise, train, shard, partition, schedule; OUT is IR
  --compile-from PHASE   MODEL is IR that --compile-to PHASE wrote
  --dump-phases DIR      writes DIR/model.N-PHASE.mlir after each phase
)";
  if (command == "verify")
    return R"(usage: llmc verify MODEL --mesh ... [choices of compile] [options]

Shows that the plan for a mesh equals its model on one rank: static checks of the
plan, the partitioned program in double precision, the plan with its kernels, five
steps of each optimizer. MODEL may be IR that llmc compile --compile-to wrote; its
mesh and choices are those it was written with. Exit 0: equal; 3: runs, but is not
equal; 1: refused.

  --infer                the outputs of one run, in place of loss, gradients and weights.
                         Inputs are drawn: rows of the tables that they index, positions,
                         masks whose rows begin with ones, else normal numbers
  --after PHASE          only the border after raise, train, shard, partition, schedule
  --seed S               of rows, labels and drawn weights                       [1]
  --interleavings N      also run the plan N times with ranks, streams and transfers in
                         drawn orders: equal bits, nothing read before it is written
  --mutate               also break the plan in every small way; each fault must be
                         found by a check, or shown to change nothing
  --mutants N            the same with at most N faults of each kind
  --twin auto|on|off     run a shrunk model of the same structure in place of the plan, and
                         show that the two plans are isomorphic; auto: if the plan is too
                         large to run here                                     [auto]
  --draws N              N drawn models, meshes, batches, schedules in place of MODEL
  --json                 one object: passed, ranks, checks
)";
  return R"(usage: llmc COMMAND ...

  compile MODEL -o OUT   one program that trains MODEL on every rank of a mesh, or
                         with --infer one that runs it
  inspect MODEL|OUT      what is in a model or a compiled program
  explain OUT [NAME]     why a program's collectives, messages and cuts are there
  verify MODEL           shows that a plan equals its model
  plan, trace            are not built yet

llmc COMMAND --help tells more; llmc --version.
)";
}

} // namespace llmc
