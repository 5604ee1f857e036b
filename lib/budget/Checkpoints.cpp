#include "lib/budget/Checkpoints.h"

#include <cmath>

using namespace llmc;
using namespace llmc::budget;

double budget::youngCadence(const Failures &failures) { return std::sqrt(2 * failures.checkpoint * failures.mtbf); }

double budget::dalyCadence(const Failures &failures) {
  double share = failures.checkpoint / (2 * failures.mtbf);
  if (share >= 1)
    return failures.mtbf;
  return youngCadence(failures) * (1 + std::sqrt(share) / 3 + share / 9) - failures.checkpoint;
}

double budget::goodput(const Failures &failures, double cadence) {
  double m = failures.mtbf;
  return cadence / (m * std::exp(failures.restart / m) * std::expm1((cadence + failures.checkpoint) / m));
}
