#include "lib/schedules/Schedules.h"

#include <algorithm>

namespace llmc {

std::vector<Step> forwards(int64_t m) {
  std::vector<Step> steps;
  for (int64_t i = 0; i < m; ++i)
    steps.push_back({StepKind::F, 0, i});
  return steps;
}

std::vector<Step> gpipe(int64_t m) {
  std::vector<Step> steps = forwards(m);
  for (int64_t i = 0; i < m; ++i)
    steps.push_back({StepKind::B, 0, i});
  return steps;
}

std::vector<Step> oneFOneB(int64_t m, int64_t stage, int64_t stages) {
  std::vector<Step> steps;
  int64_t ahead = std::min(m, stages - stage - 1), forward = 0, backward = 0;
  while (forward < ahead)
    steps.push_back({StepKind::F, 0, forward++});
  while (backward < m) {
    if (forward < m)
      steps.push_back({StepKind::F, 0, forward++});
    steps.push_back({StepKind::B, 0, backward++});
  }
  return steps;
}

std::vector<Step> stepsOf(std::string_view schedule, int64_t m, int64_t chunks, int64_t stage, int64_t stages) {
  return schedule == "gpipe"         ? gpipe(m)
         : schedule == "1f1b"        ? oneFOneB(m, stage, stages)
         : schedule == "interleaved" ? interleaved(m, chunks, stage, stages)
         : schedule == "zero-bubble" ? zeroBubble(m, stage, stages)
                                     : std::vector<Step>();
}

} // namespace llmc
