// Tells sums of gradients from sums of activations. Tests: test/numerics/covering.py (key heads that
// context-parallel ranks share, in bf16), test/numerics/mixtures.py (a choice that is spread, in bf16).
#ifndef LLMC_DIALECTS_PARALLEL_GRADIENTS_H
#define LLMC_DIALECTS_PARALLEL_GRADIENTS_H

#include "dialects/parallel/Parallel.h"

namespace llmc::parallel {

// Returns whether the op adds the gradients of replicas: what shards their states made it. Replicas add activations
// too, as context-parallel ranks the cotangents of keys, or data-parallel ones rows that are added by their numbers.
bool scattersGradients(ReduceScatterOp op);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_GRADIENTS_H
