#include "lib/schedules/Schedules.h"

#include <algorithm>

namespace llmc {

std::vector<Step> interleaved(int64_t m, int64_t chunks, int64_t stage, int64_t stages) {
  // Forward number n of a stage is the chunk and micro-batch of its place in a group of p x v.
  auto step = [&](StepKind kind, int64_t n) {
    int64_t group = n / (stages * chunks), place = n % (stages * chunks);
    int64_t chunk = place / stages;
    return Step{kind, kind == StepKind::F ? chunk : chunks - 1 - chunk, group * stages + place % stages};
  };
  int64_t all = m * chunks, forward = 0;
  int64_t ahead = std::min(all, 2 * (stages - stage - 1) + (chunks - 1) * stages);
  std::vector<Step> steps;
  while (forward < ahead)
    steps.push_back(step(StepKind::F, forward++));
  for (int64_t backward = 0; backward < all; ++backward) {
    if (forward < all)
      steps.push_back(step(StepKind::F, forward++));
    steps.push_back(step(StepKind::B, backward));
  }
  return steps;
}

} // namespace llmc
