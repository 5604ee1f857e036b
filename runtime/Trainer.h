// The step loop of a compiled program and what a user sees of it.
#ifndef LLMC_RUNTIME_TRAINER_H
#define LLMC_RUNTIME_TRAINER_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "runtime/Kernels.h"
#include "runtime/Options.h"

#include <atomic>
#include <ostream>
#include <string>

namespace llmc::runtime {

struct TrainerContext {
  std::string folder;                  // of the program
  std::ostream *out = nullptr;         // start-up lines and progress
  bool terminal = false;               // `out` is one: progress rewrites its line
  const std::atomic<bool> *stop = nullptr; // set: stop after the present step
};

// Trains. An error is one line for the user, without the program's name.
support::Status train(const planfile::ProgramT &program, const Kernels &kernels,
                      const Options &options, const TrainerContext &context);

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAINER_H
