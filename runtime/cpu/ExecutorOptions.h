// Lists what the caller of an Executor chooses. The tests are test/runtime/ExecutorTest.cpp and
// AdversaryTest.cpp.
#ifndef LLMC_RUNTIME_CPU_EXECUTOROPTIONS_H
#define LLMC_RUNTIME_CPU_EXECUTOROPTIONS_H

#include "lib/planfile/Program.h"
#include "runtime/cpu/RoutesHook.h"
#include "runtime/profile/Trace.h"

#include <cstdint>
#include <optional>

namespace llmc::runtime {

class LocalRanks;

struct ExecutorOptions {
  unsigned workers = 0;        // threads that drive ranks; 0: min(cores, ranks)
  unsigned threadsPerRank = 0; // 0: as the plan says, else cores / ranks
  bool pin = false;            // threads to cores, as described in Pinning.h
  bool useLibrary = true;      // false: the program's own kernels multiply matrices
  bool share = false;          // states that nothing writes (SharedStates.h)
  bool profile = false;        // measure every instruction
  std::optional<TraceOptions> trace;
  bool isolate = false;        // for tests: while a kernel runs, all other arenas are closed
  // Names a second plan of the same states, which retries steps over these arenas; null: none. Addresses are
  // reserved for what it needs beyond this one.
  const planfile::ProgramT *retry = nullptr;
  // Names the ranks over whose arenas this plan runs, as their retry; null: it has arenas of its own.
  const LocalRanks *over = nullptr;
  // Receives the routes of steps, if set, but not those of evaluations.
  RoutesHook routes;
  // Seeds the drawn order in which Adversary.h then runs the steps.
  std::optional<uint64_t> interleaving;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_EXECUTOROPTIONS_H
