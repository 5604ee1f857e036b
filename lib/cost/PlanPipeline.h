// Runs the order of micro-batches of our own plans with their exchanges of messages (lib/schedules). Tests:
// test/cost/Pipelines.cpp, test/numerics/simulated.py (beside simulated plans).
#ifndef LLMC_LIB_COST_PLANPIPELINE_H
#define LLMC_LIB_COST_PLANPIPELINE_H

#include "lib/cost/Pipeline.h"

namespace llmc::cost {

// Returns when each stage ends its last pass, as runSchedule() does. Messages of a stage that leave or come in one column of
// the schedule are one exchange: it begins when what it sends is made, the slots that it receives into are free and the
// exchange before it has ended; a message takes `message` seconds from when both of its ends have begun, and a pass waits
// for the whole exchange with what it needs. Of many micro-batches those beyond 8 p (of long pipelines 3 p) take what p of
// them take when the pipeline is full; very long pipelines run without exchanges.
std::vector<double> runExchanges(const std::vector<std::vector<ChunkPasses>> &passes, Order order, int64_t microBatches,
                                 double message);

// Returns ends that no order of micro-batches comes before: a stage runs all of its passes after the first micro-batch has come
// through the stages before it, and the first stage ends when the last gradient has come back through them.
std::vector<double> leastEnds(const std::vector<std::vector<ChunkPasses>> &passes, Order order, int64_t microBatches, double message);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_PLANPIPELINE_H
