// Answers what a training budget allows, by each scaling law: parameters, tokens, loss, time and cost. Tests:
// test/budget/BudgetTest.cpp, test/numerics/budget.py.
#ifndef LLMC_LIB_BUDGET_BUDGET_H
#define LLMC_LIB_BUDGET_BUDGET_H

#include "lib/budget/Quantities.h"

namespace llmc::budget {

// Names the type of products whose peak an accelerator is taken by.
enum class Products : uint8_t { Bits16, Fp32, Fp8 };

// Holds what is given; all else follows, or is open.
struct Question {
  std::array<std::optional<double>, kQuantities> given; // by Quantity; Peak follows from `gpu`
  std::string gpu;                                      // the name of an accelerator
  Products products = Products::Bits16;
  std::optional<double> inferenceTokens;              // of the life of the model
  std::optional<double> mtbfHours, checkpointSeconds; // between failures of the whole job; to write a checkpoint
  double restartSeconds = 0;

  std::optional<double> &of(Quantity quantity) { return given[int(quantity)]; }
};

// Holds a training as one law has it.
struct Row {
  std::string law, source, lossSource;
  Quantities quantities = {};
  double params = 0, tokens = 0, flops = 0;
  std::optional<double> loss = {};
  bool isFeasible = true; // false: it would need more than the peak of its accelerators
  std::optional<double> inferenceFlops = {}, totalFlops = {}; // of the life of the model
  std::optional<double> saved = {};    // share of the total that Sardana's law saves
  std::optional<double> wallDays = {}; // days with failures and checkpoints
};

// Holds the seconds of work between checkpoints, by Young and by Daly, and the share of useful time at Daly's.
struct Cadence {
  double young, daly, goodput;
};

struct Answer {
  std::vector<Row> rows;
  std::optional<Cadence> cadence;
  std::string gpu;
};

// Returns the answer; none after errors, each a line for the user.
std::optional<Answer> answer(const Question &question, std::vector<std::string> &errors);

} // namespace llmc::budget

#endif // LLMC_LIB_BUDGET_BUDGET_H
