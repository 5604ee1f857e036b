// Finds which gradient of a step is not finite, for a run that stops. Test:
// test/verify/OverflowTest.cpp.
#ifndef LLMC_RUNTIME_TRAIN_NONFINITE_H
#define LLMC_RUNTIME_TRAIN_NONFINITE_H

#include "runtime/cpu/Executor.h"

#include <optional>
#include <string>
#include <string_view>

namespace llmc::runtime {

// Returns an output of the step that is not finite on some rank: each rank computes its own, from
// its own copies of tensors that several hold. Returns nothing if all are finite.
std::optional<double> nonFiniteOutput(const Executor &executor, std::string_view name);

// Names the first gradient, by rank, that is not finite: "the gradient of 'wte' is inf on rank 5 (dp 1,
// pp 0, tp 1), also on 7", as replicas do once they have added theirs. Empty if all accumulators are finite.
std::string describeNonFinite(const Executor &executor);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_NONFINITE_H
