// The step loop of a compiled program and what a user sees of it.
#ifndef LLMC_RUNTIME_TRAIN_TRAINER_H
#define LLMC_RUNTIME_TRAIN_TRAINER_H

#include "runtime/session/Session.h"

namespace llmc::runtime {

// Trains. An error is one line for the user, without the program's name. Whatever ends
// the run after a step, the weights of the last good one are saved.
support::Result<Ended> train(const planfile::ProgramT &program, const Kernels &kernels,
                             const Options &options, const RunContext &context);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_TRAINER_H
