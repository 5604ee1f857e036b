// Computes the learning rate of each step. The test is test/runtime/OptionsTest.cpp.
#ifndef LLMC_RUNTIME_TRAIN_LEARNINGRATE_H
#define LLMC_RUNTIME_TRAIN_LEARNINGRATE_H

#include "lib/support/Error.h"
#include "runtime/session/Options.h"

#include <cstdint>
#include <string>

namespace llmc::runtime {

// Returns the learning rate of `step` (from 0) of `steps`: linear from 0 to lr in the
// warm-up, whose last step has lr; then by the schedule down to min-lr, which the step after
// the last would have. Wsd (warm-up, stable, decay: MiniCPM, Hu et al. 2024; Megatron-LM's
// WSD) stays at lr and decays linearly in its last steps.
double learningRate(const Options &options, uint64_t step, uint64_t steps);

// Returns the number of steps in which Wsd decays: --decay-steps, or a tenth of `steps`,
// rounded up.
uint64_t decaySteps(const Options &options, uint64_t steps);

// Fails if warm-up and decay of Wsd together exceed `steps`.
support::Status checkSchedule(const Options &options, uint64_t steps);

// Returns a description such as "lr 0.001 cosine to 0, warm-up 10".
std::string scheduleNote(const Options &options, uint64_t steps);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_LEARNINGRATE_H
