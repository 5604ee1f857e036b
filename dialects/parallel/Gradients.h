// Tells sums of gradients from sums of activations. Test: test/numerics/covering.py (key heads that
// context-parallel ranks share, in bf16).
#ifndef LLMC_DIALECTS_PARALLEL_GRADIENTS_H
#define LLMC_DIALECTS_PARALLEL_GRADIENTS_H

#include "dialects/parallel/Parallel.h"

namespace llmc::parallel {

// Returns whether the op adds the gradients of replicas: flat tensors, perhaps of several layers.
// Context-parallel ranks add cotangents of keys, too, which have rows, tokens and heads.
bool scattersGradients(ReduceScatterOp op);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_GRADIENTS_H
