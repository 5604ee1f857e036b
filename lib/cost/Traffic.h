// Adds up what a rank of each stage sends in one step, by what it is for: the collectives of the table, as often as
// micro-batches and layers have them. Tests: test/numerics/predictions.py (beside those of the compiled plan).
#ifndef LLMC_LIB_COST_TRAFFIC_H
#define LLMC_LIB_COST_TRAFFIC_H

#include "lib/cost/Kernels.h"

#include <cstdint>
#include <vector>

namespace llmc::cost {

enum class Phase : uint8_t { Forward, Backward, Update };

// Holds the payloads (Collective::bytes) of all calls of one kind over one step.
struct Traffic {
  int64_t stage;
  Role role;
  Transfer kind;
  Phase phase;
  double bytes, calls;
};

// Holds the FLOPs of a step on one rank of a stage: of our own plans with what is computed again.
struct StageFlops {
  double products = 0, attention = 0;
};
std::vector<StageFlops> flopsOf(const Table &table, const Machine &machine);

// Returns the traffic of a step, without what stages exchange and scalars: of our own plans all, where sums of gradients
// belong to the backward pass that starts them; of other stacks that of both passes, without data-parallel ranks.
std::vector<Traffic> trafficOf(const Table &table, const Machine &machine);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_TRAFFIC_H
