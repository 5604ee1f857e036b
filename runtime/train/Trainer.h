// Runs the step loop of a compiled program and prints its progress. The test is
// test/runtime/TrainerTest.cpp.
#ifndef LLMC_RUNTIME_TRAIN_TRAINER_H
#define LLMC_RUNTIME_TRAIN_TRAINER_H

#include "runtime/session/Session.h"

namespace llmc::runtime {

// Trains, and writes the files that `options` name (--metrics, --trace, --dump, --save,
// and --count-collectives). Returns how the run ended (Session.h); an error is one line for the
// user. However the run ends after a step, the weights of the last good step go to --save, unless
// a step failed while it changed them.
support::Result<Ended> train(const planfile::ProgramT &program, const Kernels &kernels,
                             const Options &options, const RunContext &context);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_TRAINER_H
