// Compares two programs: what differs in their plans, and on a cluster what that costs. Tests: test/numerics/compared.py.
#ifndef LLMC_LIB_ADVISE_COMPARISON_H
#define LLMC_LIB_ADVISE_COMPARISON_H

#include "lib/advise/Request.h"
#include "lib/planfile/EmbeddedProgram.h"
#include "lib/simulate/Forecast.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace llmc::advise {

// Splits the seconds of a step on the rank that computes longest: `parts` are compute, what it waits for collectives and
// messages by their axis (tp, dp, pp, cp, ep, ...), bubble (it idles until a peer comes) and host (beside all
// instructions); they sum to the step. `waits` tells of which kind the exposed ones are: "tp all_reduce".
struct StepParts {
  std::map<std::string, double> parts, waits;
};
StepParts partsOf(const planfile::ProgramT &program, const simulate::Forecast &forecast, const cost::Cluster &cluster);

// Holds one side of a comparison.
struct Side {
  std::string path;
  const planfile::EmbeddedProgram &carried;
  std::optional<simulate::Forecast> forecast; // where there is a cluster
};

// Returns the object of llmc compare --json; each pair is [of the first program, of the second]:
//   programs, models (pairs), same_model, identical (no difference at all),
//   differences [{what, values (pair), change (second less first, of numbers alone)}]: mesh, rows of a step, tokens of a
//   row, micro-batch, micro-batches, schedule, stages, zero, precision, optimizer, sequence parallelism, cp kind,
//   recompute, dropout, ..., kernels, instructions of each kind, bytes of states, of the largest arena and of each kind of
//   memory (of the stage that has most), empty cells
//   collectives [{kind, axes, phase, calls, step_bytes (pairs)}]: those that differ; messages have kind "send"
//   others: [text]: what differs beside all these figures
//   with a cluster, cost {cluster, step_s, tokens_per_s, arena_bytes, process_peak (pairs), difference_s, slower (by the
//   first's step), parts [{part, seconds (pair), difference_s}], waits [same]}: of StepParts, the largest difference first
//   words [text]: the same in sentences, the most important first
nlohmann::json comparisonJson(const Side &first, const Side &second, const cost::Cluster *cluster);

// Returns the sentences of comparisonJson().
std::vector<std::string> comparisonWords(const nlohmann::json &comparison);

// Formats the object for people: sentences, then tables.
std::string comparisonText(const nlohmann::json &comparison);

} // namespace llmc::advise

#endif // LLMC_LIB_ADVISE_COMPARISON_H
