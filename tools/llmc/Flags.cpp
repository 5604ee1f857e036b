// Lists the flags of `llmc` in one table.
#include "tools/llmc/Flags.h"

#include "lib/support/Error.h"
#include "lib/support/Nearest.h"

#include <sstream>

namespace llmc {
using support::text;
namespace {

constexpr unsigned kChoice = kCompile | kVerify;
constexpr const char *kBatch = "the batch is a dimension of the model: bind it with --dim NAME=N";

// Makes a choice with one value so far: the others are refused by name, never ignored.
Flag later(const char *name, const char *built, std::vector<std::string> values,
           const char *inference = nullptr) {
  Flag flag{name, kChoice, "VALUE", nullptr, built, {built}, std::move(values)};
  flag.inference = inference;
  return flag;
}

std::vector<Flag> makeFlags() {
  return {
      {"--train", kChoice | kInspect, nullptr, "the program trains MODEL", "it does"},
      {"--infer", kChoice | kInspect, nullptr,
       "it takes every input of MODEL as it is and writes every output"},
      {"--mesh", kChoice, "8 | 4x2 | 8x16x8 | dp=8,pp=16,tp=8",
       "ranks: dp; dp x tp; dp x pp x tp; by name", "1"},
      {"--dp", kChoice, "N", "data-parallel ranks; so --pp, --tp, --cp, --ep, --etp, --edp, with\n"
       "dp x cp x tp = edp x ep x etp", "1"},
      {"--pp", kChoice, "N", nullptr},
      {"--tp", kChoice, "N", nullptr},
      {"--edp", kChoice, "N", nullptr},
      {"--micro-batch", kChoice, "N", "rows of one micro-batch of one data-parallel rank", "1", {}, {},
       false, nullptr, kBatch},
      {"--global-batch", kChoice, "N", "rows of a step", "4 x dp x pp x micro-batch", {}, {}, false,
       nullptr, kBatch},
      {"--seq", kChoice | kInspect, "N", "tokens of a row", "bound dim, or min(context, 4096)"},
      {"--dim", kChoice | kInspect, "NAME=N[,NAME=N]",
       "binds symbolic dimensions of the model; with --infer the\nbatch too, which dp divides", nullptr,
       {}, {}, true},
      {"--schedule", kChoice, "1f1b|gpipe", "order of the micro-batches", "1f1b", {"1f1b", "gpipe"},
       {"interleaved", "zero-bubble", "auto"}, false, nullptr, "each stage runs once; leave it out"},
      {"--optimizer", kChoice, "adamw|sgd", "what updates the weights", "adamw", {"adamw", "sgd"}, {},
       false, nullptr, "nothing is updated; leave it out"},
      {"--weights", kChoice | kInspect, "random|FILE|DIR", "where the program finds its weights",
       "what MODEL holds"},
      {"--tie", kChoice | kInspect, "auto|off|exact",
       "auto: equal embedding and head are one parameter, equal\ntensors that an exporter stored once "
       "are several\noff: embedding and head are two\nexact: what the file holds once is one too",
       "auto", {"auto", "off", "exact"}},
      {"--raise", kChoice | kInspect, "on|off", "recognise blocks, fold layers", "on", {"on", "off"}},
      later("--target", "cpu", {"cuda"}),
      later("--zero", "0", {"1", "2", "3", "auto"}),
      later("--sequence-parallel", "off", {"on", "auto"}),
      {"--cp", kChoice, "N", nullptr, "1"},
      {"--ep", kChoice, "N", nullptr, "1"},
      {"--etp", kChoice, "N", nullptr, "1"},
      later("--virtual-stages", "1", {"2", "3", "4", "auto"}),
      later("--recompute", "none", {"selective", "full", "auto"},
            "nothing is kept for a backward pass; leave it out"),
      later("--precision", "fp32", {"bf16", "fp16", "fp8"}),
      later("--grad-dtype", "fp32", {"bf16"}, "there are no gradients; leave it out"),
      later("--reduce-dtype", "fp32", {"bf16"}),
      later("--attention", "flash", {"unfused"}),
      later("--overlap", "on", {"off"}),
      later("--software", "llmc", {"eager", "fused"}),
      later("--loss", "cross-entropy", {}, "there is no loss; leave it out"),
      later("--dropout", "0", {"config"}, "nothing is dropped; leave it out"),
      {"--cuda-kernels", kCompile, "all | sm_80,sm_90,sm_100",
       "also carries its kernels for these chips, for\nscripts/gpu-check.sh; needs a CUDA assembler",
       "none"},
      {"--output", kCompile, "OUT", "the program, or IR with --compile-to; replaces a file of\nthat name, never one that is read", nullptr, {},
       {}, false, "-o"},
      {"--compile-to", kCompile, "PHASE", "stop after raise, train, shard, partition, schedule; OUT is IR",
       nullptr, {"raise", "train", "shard", "partition", "schedule", "emit"}},
      {"--compile-from", kCompile, "PHASE",
       "MODEL is IR that --compile-to PHASE wrote, which says so itself", nullptr,
       {"raise", "train", "shard", "partition", "schedule"}},
      {"--dump-phases", kCompile, "DIR", "writes DIR/model.N-PHASE.mlir after each phase"},
      {"--after", kVerify, "PHASE", "only the border after raise, train, shard, partition, schedule",
       nullptr, {"raise", "train", "shard", "partition", "schedule"}},
      {"--seed", kVerify, "S", "of rows, labels and drawn weights", "1"},
      {"--interleavings", kVerify, "N",
       "also run the plan N times with ranks, streams and transfers in\n"
       "drawn orders: equal bits, nothing read before it is written"},
      {"--oracle", kVerify, "PYTHON",
       "also run MODEL's own file in this Python: ONNX Runtime and\n"
       "PyTorch, or transformers; alone: that of LLMC_ORACLE_PYTHON",
       nullptr, {}, {}, false, nullptr, nullptr, "LLMC_ORACLE_PYTHON"},
      {"--mutate", kVerify, nullptr,
       "also break the plan in every small way; each fault must be\n"
       "found by a check, or shown to change nothing"},
      {"--mutants", kVerify, "N", "the same with at most N faults of each kind"},
      {"--without", kVerify, "CHECKER",
       "for tests of --mutate: the static checker CHECKER (happens-before, ...)\n"
       "does not look; what it alone had found must be seen to survive"},
      {"--twin", kVerify, "auto|on|off",
       "run a shrunk model of the same structure in place of the plan,\n"
       "and show that the two plans are isomorphic; auto: if the plan\nis too large to run here",
       "auto", {"auto", "on", "off"}},
      {"--draws", kVerify, "N", "N drawn models, meshes, batches, schedules in place of MODEL"},
      {"--quiet", kChoice, nullptr, "only errors", nullptr, {}, {}, false, "-q"},
      {"--verbose", kChoice, nullptr, "also how long each phase took", nullptr, {}, {}, false, "-v"},
      {"--json", kInspect | kExplain | kVerify, nullptr, "one object"},
      {"--help", kCompile | kInspect | kExplain | kVerify, nullptr, "this text", nullptr, {}, {},
       false, "-h"},
  };
}

constexpr const char *kCompileText = R"(
MODEL is an ONNX file, a config.json, a folder that holds one, or IR that --compile-to
wrote: that goes on from where it stands, with the mesh and choices that it was written
with. OUT is one program for all ranks of the mesh: it trains MODEL, or runs it once a
start. A flag is given once, --dim as often as there are names.
)";
constexpr const char *kInspectText = R"(
What is in a model (ONNX, config.json), as choices of compile would take it, or in a
program made by llmc compile, whose choices are its own.
)";
constexpr const char *kExplainText = R"(
Why a program made by llmc compile moves what it moves between ranks, and how its
ops are cut. Without NAME: the collectives and messages of a step, each with a name.

  NAME                   a collective or message by that name, a node or parameter of
                         the model, or a kind of op (matmul, attention)
)";
constexpr const char *kVerifyText = R"(
Shows that the plan for a mesh equals its model on one rank: static checks of the
plan, the partitioned program in double precision, the plan with its kernels, five
steps of each optimizer; with --infer the outputs of one run (inputs are drawn: rows
of the tables that they index, positions, masks whose rows begin with ones, else
normal numbers). MODEL may be IR that llmc compile --compile-to wrote; its mesh and
choices are those it was written with. Exit 0: equal; 3: runs, but is not equal; 1:
refused.
)";

std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

// Returns " --flag VALUE help [default]", with further lines below the first.
std::string helpOf(const Flag &flag) {
  constexpr size_t kHelp = 25;
  std::string head = text("  ", flag.brief ? flag.brief : "", flag.brief ? ", " : "", flag.name, flag.value ? " " : "",
                          flag.value ? flag.value : "");
  std::string help = flag.help;
  if (flag.standard)
    help += text("  [", flag.standard, "]");
  std::string out = head;
  out += head.size() + 2 > kHelp ? "\n" + std::string(kHelp, ' ')
                                 : std::string(kHelp - head.size(), ' ');
  for (size_t i = 0; const std::string &line : split(help))
    out += (i++ ? std::string(kHelp, ' ') : "") + line + "\n";
  return out;
}

} // namespace

const std::vector<Flag> &flags() {
  static const std::vector<Flag> list = makeFlags();
  return list;
}

const Flag *findFlag(std::string_view name) {
  for (const Flag &flag : flags())
    if (name == flag.name || (flag.brief && name == flag.brief))
      return &flag;
  return nullptr;
}

const std::vector<Command> &commands() {
  static const std::vector<Command> list = {
      {"compile", kCompile, "compile MODEL -o OUT [options]", kCompileText,
       "compile MODEL -o OUT   one program that trains MODEL on every rank of a mesh, or\n"
       "                         with --infer one that runs it"},
      {"inspect", kInspect, "inspect MODEL|OUT [options]", kInspectText,
       "inspect MODEL|OUT      what is in a model or a compiled program"},
      {"explain", kExplain, "explain OUT [NAME] [--json]", kExplainText,
       "explain OUT [NAME]     why a program's collectives, messages and cuts are there"},
      {"verify", kVerify, "verify MODEL --mesh ... [options]", kVerifyText,
       "verify MODEL           shows that a plan equals its model"},
      {"plan", 0, "", "", ""},
      {"trace", 0, "", "", ""},
  };
  return list;
}

const Command *findCommand(std::string_view name) {
  for (const Command &command : commands())
    if (name == command.name)
      return &command;
  return nullptr;
}

std::string namesOf(unsigned bits) {
  std::string names;
  for (const Command &command : commands())
    if (command.bit & bits)
      names += (names.empty() ? "" : ", ") + std::string(command.name);
  return names;
}

std::string didYouMean(const std::string &typed, const std::vector<std::string> &candidates) {
  std::string found = support::nearest(typed, candidates);
  return found.empty() ? "" : "; did you mean '" + found + "'?";
}

std::string builtChoices() {
  std::string all;
  for (const Flag &flag : flags())
    if (!flag.help && flag.standard)
      all += (all.empty() ? "" : ", ") + std::string(flag.name).substr(2) + " " + flag.standard;
  return all;
}

std::string helpText(const std::string &name) {
  const Command *command = findCommand(name);
  std::string all = "usage: llmc ";
  if (!command || !command->bit) {
    all += "COMMAND ...\n\n";
    for (const Command &one : commands())
      if (one.bit)
        all += std::string("  ") + one.line + "\n";
    return all + "  plan, trace            are not built yet\n\n"
                  "llmc COMMAND --help tells more; llmc --version.\n";
  }
  all += std::string(command->usage) + "\n" + command->about + "\n";
  for (const Flag &flag : flags())
    if (flag.help && (flag.commands & command->bit))
      all += helpOf(flag);
  std::string fixed;
  size_t width = 0;
  for (const Flag &flag : flags())
    if (!flag.help && flag.standard && (flag.commands & command->bit)) {
      std::string word = std::string(flag.name) + " " + flag.standard;
      bool breaks = fixed.empty() || width + word.size() > 80;
      fixed += (fixed.empty() ? "\n  " : breaks ? ",\n  " : ", ") + word;
      width = (breaks ? 2 : width + 2) + word.size();
    }
  if (!fixed.empty())
    all += "\nOne value so far, others are refused by name:" + fixed + "\n";
  return all;
}

} // namespace llmc
