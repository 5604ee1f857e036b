// Predicts the time of a training step: what one micro-batch takes on each stage, composed over stages and
// micro-batches. Tests: test/cost.
#ifndef LLMC_LIB_COST_STEP_H
#define LLMC_LIB_COST_STEP_H

#include "lib/cost/Kernels.h"

#include <string>
#include <vector>

namespace llmc::cost {

// Holds seconds by what they are spent on; communication that compute hides is left out.
struct TimeParts {
  double compute = 0, tp = 0, dp = 0, pp = 0, cp = 0, ep = 0, bubble = 0, optimizer = 0, host = 0;

  double sum() const { return compute + tp + dp + pp + cp + ep + bubble + optimizer + host; }
  TimeParts &operator+=(const TimeParts &other);
  TimeParts operator*(double factor) const;
};

// Holds what one micro-batch takes on one stage.
struct StageTime {
  std::vector<int64_t> layers; // of each chunk
  TimeParts forward, backward; // of a micro-batch; recomputation is of backward
};

struct StepTime {
  TimeParts parts; // of the step, of the stage that takes longest
  double step = 0; // their sum
  double bubbleFraction = 0; // idle stage-seconds by stages x (step without optimizer)
  std::vector<StageTime> stages;
  double modelFlops = 0, hardwareFlops = 0; // of the step, all ranks
  int64_t tokens = 0;                       // of the step
};

// Returns the layers of each virtual stage: those of the choices; else as many for each; where stages do not divide the
// layers, the first that the least largest stage allows, a head counting as the layers that cost as much.
std::vector<int64_t> divideLayers(const Table &table, const Machine &machine);

// Returns the FLOPs of a training on so many tokens: 6 for each parameter and token (Kaplan et al., 2020, section 2.1).
double trainingFlops(double parameters, double tokens);

struct PartPrices; // Stages.h

// Returns the time of a step, of parts that have been priced or not. `isBound`: stages wait for each other as little as any
// order of micro-batches allows, which is known in no time.
StepTime predictStep(const PartPrices &prices, const Table &table, const Machine &machine, bool isBound = false);
StepTime predictStep(const Table &table, const Machine &machine);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_STEP_H
