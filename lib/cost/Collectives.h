// Prices collectives from their algorithm, the links that they cross, and latency, in seconds. Tests: test/cost.
#ifndef LLMC_LIB_COST_COLLECTIVES_H
#define LLMC_LIB_COST_COLLECTIVES_H

#include "lib/cost/Kernels.h"

namespace llmc::cost {

// Returns the bytes that one rank sends, of a collective whose tensor has `bytes` (Collective::bytes): a ring moves
// (n - 1) / n of it for a gather or a scatter, and twice that to reduce (Thakur, Rabenseifner and Gropp, 2005).
double wireBytes(Transfer kind, int64_t ranks, double bytes);

// Returns the seconds of a collective with nothing else on the links.
double timeOf(const Machine &machine, const Collective &collective);

// Returns the seconds of rows sent to their experts, or back: `bytes` are those of the rows of one rank, `copies` how
// many experts a token goes to. Ranks of other nodes get a token once with dispatchers that say so.
double exchangeTime(const Machine &machine, const Group &group, double bytes, double copies);

// Returns the seconds of a message of `bytes` from one rank to that `stride` ranks on, of the next stage.
double messageTime(const Machine &machine, int64_t stride, double bytes);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_COLLECTIVES_H
