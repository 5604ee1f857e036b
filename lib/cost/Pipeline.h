// Runs the order of micro-batches of a pipeline on what each pass takes: the orders are those of our own plans
// (lib/schedules). Tests: test/cost, test/numerics/simulated.py (beside simulated plans).
#ifndef LLMC_LIB_COST_PIPELINE_H
#define LLMC_LIB_COST_PIPELINE_H

#include "lib/cost/Software.h"

#include <memory>
#include <vector>

namespace llmc::cost {

// Holds the seconds of the passes of a micro-batch through one chunk of a stage; `weights` follow `backward` where a
// schedule splits them.
struct ChunkPasses {
  double forward = 0, backward = 0, weights = 0;
};

// Returns when each stage ends its last pass. `passes` are by stage and chunk; each pass begins as soon as the one before on
// its stage and what it needs of a neighbour have ended, that a message of `message` seconds later.
std::vector<double> runSchedule(const std::vector<std::vector<ChunkPasses>> &passes, Order order, int64_t microBatches,
                                double message);

// Counts the micro-batches of a chunk that are alive at once: between the starts of their forward and the ends of their
// backward, of their gradients of weights (of their backward, where it is not split), and between the two.
struct Alive {
  int64_t toBackward = 0, toWeights = 0, fromBackward = 0;
};
// Returns them by stage and chunk.
std::shared_ptr<const std::vector<std::vector<Alive>>> countAlive(const Choices &choices);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_PIPELINE_H
