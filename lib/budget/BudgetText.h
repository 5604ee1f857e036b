// Writes the answer of a budget for people and for scripts. Tests: test/budget/BudgetTest.cpp, test/numerics/budget.py.
#ifndef LLMC_LIB_BUDGET_BUDGETTEXT_H
#define LLMC_LIB_BUDGET_BUDGETTEXT_H

#include "lib/budget/Budget.h"

#include <nlohmann/json.hpp>

namespace llmc::budget {

// Returns the object of llmc budget --json: results [{law, params, tokens, tokens_per_param, loss, flops, mfu, gpus, days,
// wall_days, gpu_hours, dollars, feasible, source, loss_source, and with inference inference_flops, total_flops, saved}],
// and with failures cadence_s {young, daly} and goodput. What is open is null.
nlohmann::ordered_json answerJson(const Answer &answer);

// Returns the same as a table, with the source of each law.
std::string answerText(const Answer &answer);

} // namespace llmc::budget

#endif // LLMC_LIB_BUDGET_BUDGETTEXT_H
