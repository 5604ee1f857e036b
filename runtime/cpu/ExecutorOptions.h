// Lists what the caller of an Executor chooses. The tests are test/runtime/ExecutorTest.cpp and
// AdversaryTest.cpp.
#ifndef LLMC_RUNTIME_CPU_EXECUTOROPTIONS_H
#define LLMC_RUNTIME_CPU_EXECUTOROPTIONS_H

#include "runtime/profile/Trace.h"

#include <cstdint>
#include <optional>

namespace llmc::runtime {

struct ExecutorOptions {
  unsigned workers = 0;        // threads that drive ranks; 0: min(cores, ranks)
  unsigned threadsPerRank = 0; // 0: as the plan says, else cores / ranks
  bool pin = false;            // threads to cores, as described in Pinning.h
  bool useLibrary = true;      // false: the program's own kernels multiply matrices
  bool share = false;          // states that nothing writes (SharedStates.h)
  bool profile = false;        // measure every instruction
  std::optional<TraceOptions> trace;
  bool isolate = false;        // for tests: while a kernel runs, all other arenas are closed
  // Seeds the drawn order in which Adversary.h then runs the steps.
  std::optional<uint64_t> interleaving;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_EXECUTOROPTIONS_H
