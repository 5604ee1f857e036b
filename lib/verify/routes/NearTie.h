// Measures how far the scores of a router are from choosing certain experts, to tell a choice that roundings
// decide from a wrong one. Tests: test/verify/NearTieTest.cpp.
#ifndef LLMC_LIB_VERIFY_ROUTES_NEARTIE_H
#define LLMC_LIB_VERIFY_ROUTES_NEARTIE_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <span>

namespace llmc::verify {

// Holds the largest amount by which scores prefer other experts to the wanted ones: 0 if they choose these, in
// this order; infinite if they never could. `preferred` is the expert that they choose in the place of `wanted`.
struct TieGap {
  double gap = 0;
  int64_t wanted = -1, preferred = -1;
};

// Returns the gap of the experts `wanted`, best first, of one token. `scores` have their bias added; `rule` has
// the groups from which a router chooses. If scores may move by e each, a gap above 2 e rules the choice out. A
// score can lose in two ways, the nearer one counts: to that of a wanted expert, or with its group to the best
// group that is not kept, by as much a score as their sums have terms. Scores that are not numbers come last.
TieGap tieGap(std::span<const float> scores, std::span<const int32_t> wanted, const planfile::RoutesT &rule);

// Returns the largest absolute value of the scores that are finite, by which a gap is measured.
double sizeOfScores(std::span<const float> scores);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_ROUTES_NEARTIE_H
