// Prices what a plan moves between ranks by the simulation of its step. Tests: test/numerics/priced.py.
#ifndef LLMC_LIB_ADVISE_PRICES_H
#define LLMC_LIB_ADVISE_PRICES_H

#include "lib/report/PlanIndex.h"
#include "lib/simulate/Forecast.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace llmc::advise {

// Holds the seconds of a collective or message on the rank of its stage that computes longest: of one call on average, of a
// step, and of the latter those in which the rank computes nothing for it. Of a message between stages these are those
// of the end that waits longer.
struct Price {
  double call = 0, step = 0, exposed = 0;
};

// Returns the rank of each stage that computes longest, by stage.
std::vector<const simulate::RankTime *> busiestRanks(const simulate::Forecast &forecast);

// Returns the price of each of book.traffic.
std::vector<Price> pricesOf(const report::PlanIndex &book, const simulate::Forecast &forecast);

// Adds to an answer of explainJson() what the forecast says: `prediction` {cluster, simulated_step_s}, and to each
// collective or message in it time_s (of a call), step_s (of a step), exposed_s (of a step: compute waits for it) and
// share (of the step that is exposed). Alternatives that no flag makes get time_s and step_s of their calls.
void addPrices(nlohmann::json &answer, const report::PlanIndex &book, const simulate::Forecast &forecast,
               const cost::Machine &machine);

// Formats an answer of explainJson() with prices and fixes (Fixes.h).
std::string pricedText(const nlohmann::json &answer);

} // namespace llmc::advise

#endif // LLMC_LIB_ADVISE_PRICES_H
