// Computes on parts of tensors: what a group's members exchange, in double. Tests:
// test/passes/4-partition/StepTest.cpp, test/passes/5-schedule/RunTest.cpp (all through
// evaluateStep()).
#ifndef LLMC_DIALECTS_PARALLEL_COLLECTIVES_H
#define LLMC_DIALECTS_PARALLEL_COLLECTIVES_H

#include "dialects/parallel/Parallel.h"

namespace llmc::parallel {

using graph::Tensor;

// Returns elements [index * n, (index + 1) * n) of `dim`, where n is its size / parts.
Tensor slicePart(const Tensor &whole, int64_t dim, int64_t parts, int64_t index);
// Copies `part` into `whole` at the offsets `starts`, one per dimension.
void placePart(Tensor &whole, const Tensor &part, llvm::ArrayRef<int64_t> starts);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_COLLECTIVES_H
