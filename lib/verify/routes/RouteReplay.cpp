#include "lib/verify/routes/RouteReplay.h"

#include "lib/support/Counted.h"
#include "lib/support/Error.h"
#include "runtime/plan/Shard.h"

#include <algorithm>
#include <cmath>

namespace llmc::verify {

using planfile::RoutesT;
using runtime::WrittenRoutes;

// Bounds the faults that are told.
static constexpr size_t kMostFaults = 5;

std::string RouteReplay::Result::text() const {
  return support::text(support::groupDigits(replayed), " of ", support::counted(choices, "choice"), " replayed");
}

RouteReplay::RouteReplay(const planfile::ProgramT &program, const std::vector<ChosenRoutes> &wanted, double ties)
    : program_(program), wanted_(wanted), ties_(ties) {
  planfile::forEachRoutes(program, [&](const planfile::LaunchT &, const RoutesT &routes) {
    if (routes.kind == planfile::RoutesKind::Chosen)
      layouts_.emplace(&routes, planfile::RoutesLayout(program, routes));
  });
}

runtime::RoutesHook RouteReplay::hook() {
  return [this](const WrittenRoutes &written) { replay(written); };
}

// Runs on every rank, also where several choose for the same tokens, or the forward is computed again: all must
// go on with the same routes. Choices are counted once.
void RouteReplay::replay(const WrittenRoutes &written) {
  auto layout = layouts_.find(&written.of);
  if (layout == layouts_.end() || step_ >= wanted_.size())
    return;
  Result seen;
  auto found = wanted_[step_].find(written.of.router);
  int64_t experts = written.of.experts;
  if (found == wanted_[step_].end() || found->second.empty() ||
      layout->second.size() % static_cast<int64_t>(found->second.size()) != 0) {
    seen.gap = INFINITY;
    seen.faults.push_back(support::text(written.of.router, ": the reference has no such routes"));
    return add(seen);
  }
  const std::vector<int32_t> &wanted = found->second;
  auto [rows, tokens, choices] = layout->second.shape();
  std::vector<float> scores(experts);
  runtime::Shard shard(written.of, *program_.mesh, written.coordinate);
  runtime::forEachRun(shard, runtime::denseView(written.of.global_shape),
                      [&](int64_t local, int64_t element, int64_t, int64_t) {
                        const float *from = written.scores + local / choices * experts;
                        for (int64_t e = 0; e < experts; ++e)
                          scores[e] = written.bias ? from[e] + written.bias[e] : from[e];
                        int64_t at = layout->second.elementOf(element, written.microBatch), token = at / choices;
                        // Looks at the rows of the reference again where the step repeats them.
                        size_t there = static_cast<size_t>(at) % wanted.size();
                        replayToken({written, token / tokens, token % tokens, scores,
                                     std::span(wanted).subspan(there, choices),
                                     std::span(written.routes + local, choices)},
                                    seen);
                      });
  if (written.phase != planfile::Phase::Forward ||
      !runtime::isFirstHolder(written.of.dims, program_.stage_axis, written.coordinate))
    seen.choices = seen.replayed = 0;
  add(seen);
}

// Returns how far a kernel's choice may be from its scores, as a share of the largest: it compares
// scores as they are, but groups by sums in fp32, each of whose additions rounds by 2^-24 of a sum of
// at most as many of the largest; a gap of groups is that of one of the terms (NearTie.h).
static double roundingOfGroups(const RoutesT &rule) {
  return rule.groups > 1 ? std::ldexp(double(rule.group_terms), -24) : 0;
}

void RouteReplay::replayToken(const Token &token, Result &seen) const {
  seen.choices += token.chosen.size();
  if (std::equal(token.chosen.begin(), token.chosen.end(), token.wanted.begin()))
    return;
  const RoutesT &rule = token.written.of;
  // Compares what the kernel chose with its own scores first: those may well be right where it is wrong.
  std::vector<int32_t> chosen(token.chosen.begin(), token.chosen.end());
  TieGap own = tieGap(token.scores, chosen, rule), gap = tieGap(token.scores, token.wanted, rule);
  double size = sizeOfScores(token.scores);
  bool isOwn = own.gap > roundingOfGroups(rule) * size;
  double share = isOwn ? INFINITY : gap.gap == 0 ? 0 : gap.gap / size;
  seen.gap = std::max(seen.gap, share);
  if (share <= ties_) {
    for (size_t c = 0; c < token.chosen.size(); ++c)
      seen.replayed += token.chosen[c] != token.wanted[c];
    std::copy(token.wanted.begin(), token.wanted.end(), token.chosen.begin());
  } else if (seen.faults.size() < kMostFaults) {
    seen.faults.push_back(describe(token, isOwn ? own : gap, isOwn));
  }
}

std::string RouteReplay::describe(const Token &token, const TieGap &gap, bool isOwn) const {
  std::string where = support::text(token.written.of.router, ", step ", step_ + 1, ", row ", token.row, ", token ",
                                    token.place, ": ");
  if (gap.preferred < 0)
    return support::text(where, isOwn ? "the kernel" : "fp64", " chooses expert ", gap.wanted,
                         ", which it cannot: there is none, twice, or of one group too many");
  return support::text(where, isOwn ? "the kernel" : "fp64", " chooses expert ", gap.wanted, " (score ",
                       token.scores[gap.wanted], "), the kernel's scores prefer expert ", gap.preferred, " (",
                       token.scores[gap.preferred], "), by ", gap.gap);
}

void RouteReplay::add(const Result &seen) {
  std::lock_guard lock(mutex_);
  result_.choices += seen.choices;
  result_.replayed += seen.replayed;
  result_.gap = std::max(result_.gap, seen.gap);
  for (const std::string &fault : seen.faults)
    if (result_.faults.size() < kMostFaults)
      result_.faults.push_back(fault);
}

} // namespace llmc::verify
