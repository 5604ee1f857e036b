// The learning rate of each step.
#ifndef LLMC_RUNTIME_TRAIN_LEARNINGRATE_H
#define LLMC_RUNTIME_TRAIN_LEARNINGRATE_H

#include "lib/support/Error.h"
#include "runtime/session/Options.h"

#include <cstdint>
#include <string>

namespace llmc::runtime {

// Learning rate of `step` (from 0) of `steps`: linear from 0 to lr in the warm-up, whose
// last step has lr; then as the schedule says, down to min-lr, which the step after the last
// would have. Wsd (warm-up, stable, decay: MiniCPM, Hu et al. 2024; Megatron-LM's WSD) stays at
// lr and decays linearly in its last steps.
double learningRate(const Options &options, uint64_t step, uint64_t steps);

// Steps of the decay of Wsd.
uint64_t decaySteps(const Options &options, uint64_t steps);

// An error: the parts of the schedule do not fit into `steps`.
support::Status checkSchedule(const Options &options, uint64_t steps);

// "lr 0.001 cosine to 0, warm-up 10".
std::string scheduleNote(const Options &options, uint64_t steps);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_LEARNINGRATE_H
