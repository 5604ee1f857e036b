// Writes what a search has found, as text and as JSON. Tests: test/numerics/search.py.
#ifndef LLMC_LIB_SEARCH_RESULTTEXT_H
#define LLMC_LIB_SEARCH_RESULTTEXT_H

#include "lib/search/Levers.h"
#include "lib/search/Search.h"
#include "lib/support/Json.h"

#include <string>

namespace llmc::search {

// Returns the object of `llmc plan --json`: that of predict::predictionJson() with the fastest plan as `chosen`, its `flags`
// and `command` and, where a price is given, `tokens_per_dollar`; as `alternatives` the others, each with `loses_s`, by which its step is longer; `rejected` [{mesh, reason}];
// `search` {candidates, priced, tables, seconds}.
nlohmann::json resultJson(const Result &result, const Request &request);

// Returns what is said of a plan that does not fit: `chosen` is null, `asked` what was asked for, `levers` [{flag, value,
// command, saves_bytes, costs_s, fits}], and the rest as of resultJson().
nlohmann::json lackJson(const predict::Prediction &asked, const std::vector<Lever> &levers);

std::string resultText(const Result &result, const Request &request);
std::string leversText(const std::vector<Lever> &levers);

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_RESULTTEXT_H
