// Predicts the peak memory of every stage, by what it is spent on. Tests: test/cost.
#ifndef LLMC_LIB_COST_MEMORY_H
#define LLMC_LIB_COST_MEMORY_H

#include "lib/cost/Kernels.h"

#include <string>
#include <vector>

namespace llmc::cost {

// Holds bytes of one rank by what they are for. `optimizer` are the moments; `gathered` weights that ZeRO-3 has whole
// for their turn; `context` what the driver and libraries take; fragmentation what an allocator holds and cannot use.
struct MemoryParts {
  double weights = 0, masters = 0, gradients = 0, optimizer = 0, gathered = 0, activations = 0, logits = 0,
         workspace = 0, communication = 0, fragmentation = 0, context = 0;

  double sum() const {
    return weights + masters + gradients + optimizer + gathered + activations + logits + workspace + communication +
           fragmentation + context;
  }
};

// Returns the bytes that backward needs of one layer's forward pass, for one micro-batch.
double keptBytes(const Machine &machine, const Part &layer);

// Returns the peak of each stage. What an allocator of a framework reports leaves out fragmentation and context, which
// are zero for it: these runs are measured so.
std::vector<MemoryParts> predictMemory(const Table &table, const Machine &machine);

// Returns the table of passes with states as the choices share them out, and the traffic of these: whole parameters over
// ranks, without what rounding up adds, so that a plan takes little more. `hasWork`: else memory alone is predicted from it.
Table withStates(const Table &table, const Choices &choices, bool hasWork);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_MEMORY_H
