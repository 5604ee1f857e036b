#include "lib/schedules/Schedules.h"

#include <algorithm>

namespace llmc {

std::vector<Step> zeroBubble(int64_t m, int64_t stage, int64_t stages) {
  std::vector<Step> steps;
  int64_t behind = std::min(m, stage), weight = 0;
  for (const Step &step : oneFOneB(m, stage, stages)) {
    steps.push_back(step);
    if (step.kind == StepKind::B && step.microBatch >= behind)
      steps.push_back({StepKind::W, 0, weight++});
  }
  while (weight < m)
    steps.push_back({StepKind::W, 0, weight++});
  return steps;
}

} // namespace llmc
