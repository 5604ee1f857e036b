#include "tools/llmc/BudgetFlags.h"

#include "lib/budget/Amount.h"
#include "lib/support/FlagSetters.h"
#include "tools/llmc/Flags.h"

namespace llmc {
namespace {

using budget::Quantity;
using Entry = support::FlagTable<CommandLine>::Entry;

auto of(Quantity quantity) {
  return [=](CommandLine &line) -> std::optional<double> & { return line.budget.of(quantity); };
}

template <class T> auto of(T budget::Question::*field) {
  return [=](CommandLine &line) -> T & { return line.budget.*field; };
}

// Makes a flag for an amount between bounds that keep all that follows from it finite.
template <class Field>
Entry amount(const char *name, const char *value, const char *help, Field field, double least, double most) {
  auto set = [=](CommandLine &line, const support::GivenFlag &given, support::Problems &problems) {
    std::optional<double> number = budget::parseAmount(given.value);
    if (number && *number >= least && *number <= most)
      field(line) = *number;
    else
      problems.usage(name, " needs a number from ", least, " to ", most, ", as 250, 70B, 2T or 1e21, got '", given.value,
                     "'");
  };
  return {{name, kBudget, value, help}, set};
}

void setMfu(CommandLine &line, const support::GivenFlag &given, support::Problems &problems) {
  std::optional<double> share = support::parseReal(given.value);
  if (share && *share >= 1e-9 && *share <= 1)
    line.budget.of(Quantity::Mfu) = *share;
  else
    problems.usage("--mfu needs a share of the peak from 1e-09 to 1 (0.4 is 40 %), got '", given.value, "'");
}

} // namespace

std::vector<Entry> budgetFlags() {
  using budget::Products;
  using budget::Question;
  Entry restart = amount("--restart-seconds", "R", "time to start again after a failure", of(&Question::restartSeconds), 0, 1e9);
  restart.flag.rules.standard = "0";
  restart.flag.rules.needs = {"--mtbf-hours"};
  return {
      amount("--flops", "F", "FLOPs of the training", of(Quantity::Flops), 1e9, 1e40),
      amount("--params", "N", "parameters of the model", of(Quantity::Params), 1, 1e24),
      amount("--tokens", "D", "tokens it is trained on", of(Quantity::Tokens), 1, 1e24),
      amount("--days", "T", "days of training, without failures", of(Quantity::Days), 1e-6, 1e9),
      amount("--dollars", "X", "what the accelerators cost", of(Quantity::Dollars), 1e-3, 1e18),
      amount("--dollars-per-gpu-hour", "P", "price of an accelerator", of(Quantity::Price), 1e-6, 1e9),
      {{"--gpu", kBudget, "NAME",
        "accelerator: a100-40g, a100-80g, b200, b300, cpu, gb200, gb300,\nh100, h100-96g, h200"},
       support::word(of(&Question::gpu))},
      {{"--gpus", kBudget, "N", "accelerators of the run"}, support::whole(of(Quantity::Gpus), 1, kMost)},
      {{"--mfu", kBudget, "M", "share of the dense peak that the training reaches"}, setMfu},
      {{"--precision", kBudget, nullptr, "of products, for the peak",
        {.standard = "bf16", .values = {"fp32", "bf16", "fp16", "fp8"}, .needs = {"--gpu"}}},
       support::choose(of(&Question::products),
                       std::vector{Products::Fp32, Products::Bits16, Products::Bits16, Products::Fp8})},
      amount("--inference-tokens", "D",
             "tokens that the model will read and write in use: also the\nmodel that costs fewest FLOPs in its life",
             of(&Question::inferenceTokens), 1, 1e24),
      amount("--mtbf-hours", "H", "mean time between failures of the whole job: also how often\nto write checkpoints",
             of(&Question::mtbfHours), 1e-6, 1e9),
      amount("--checkpoint-seconds", "C", "time to write a checkpoint", of(&Question::checkpointSeconds), 1e-6, 1e9),
      restart,
  };
}

} // namespace llmc
