// Runs the plan on this machine: sets up the ranks, their threads and who observes them, then runs
// steps. runtime/README.md lists the parts; the tests are test/runtime/ExecutorTest.cpp and
// ChunkTest.cpp.
#ifndef LLMC_RUNTIME_CPU_EXECUTOR_H
#define LLMC_RUNTIME_CPU_EXECUTOR_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "runtime/compute/Kernels.h"
#include "runtime/compute/Pinning.h"
#include "runtime/compute/Workers.h"
#include "runtime/cpu/ExecutorOptions.h"
#include "runtime/cpu/SharedStates.h"
#include "runtime/plan/StageProgram.h"

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace llmc::runtime {

class Adversary;
class KernelRunner;
class LocalRanks;
class Profile;
class Profiler;
class StreamEngine;
struct Hazard;

// Counts how often an instruction of a stage ran on one rank since the start.
struct Count {
  uint32_t stage = 0;
  uint32_t origin = 0;
  planfile::Phase phase = planfile::Phase::Forward;
  const planfile::CollectiveT *collective = nullptr; // or
  const planfile::SendT *send = nullptr;
  uint64_t calls = 0;
  uint64_t rows = 0; // that an ExchangeRows moved between ranks, of all ranks of the stage
};

// Tells what becomes of a step whose outputs are there: it changes weights and moments, or it is taken
// back as if it had not been run.
enum class Verdict { Commit, TakeBack };

// Owns the parts and the threads that run one program.
class Executor {
public:
  // Makes an executor with zeroed arenas. `program` must have passed checkBounds(); it and
  // `kernels` must outlive it. Fails if memory does not suffice or the number of kernels differs.
  static support::Result<std::unique_ptr<Executor>>
  create(const planfile::ProgramT &program, const Kernels &kernels, ExecutorOptions options);
  ~Executor();

  // Runs every stage's table once. `inputs[i]` is the step's global batch of Program.inputs[i]:
  // global_batch rows, dense. A failure is final: all later steps fail alike. `approve` is called
  // once, when the outputs of the step are there and, if the plan allows it, before any weight or
  // moment has changed; its error fails the step. A step that it takes back is no failure, and counts
  // nothing: tookBack() tells.
  using CommitCheck = std::function<support::Result<Verdict>()>;
  support::Status runStep(const std::vector<const std::byte *> &inputs,
                          const CommitCheck &approve = {});
  bool tookBack() const { return tookBack_; }
  // Makes an executor of a second plan of the same states, over these arenas (ExecutorOptions::retry), which
  // shows its routes to the same caller. It must not outlive this one, and not run a step while this one does.
  // Fails if what it needs beyond these arenas does not fit the memory.
  support::Result<std::unique_ptr<Executor>> makeRetry(const planfile::ProgramT &program, const Kernels &kernels,
                                                       ExecutorOptions options) const;
  // Returns false if a step failed while it changed weights and moments, else true.
  bool statesConsistent() const { return !committing_; }

  // Runs only what LossSlice.h finds, for the evaluated loss and its tokens. Writes accumulators and
  // activations, but no weight, moment, count or profile. Fails under an interleaving.
  support::Status evaluate(const std::vector<const std::byte *> &inputs);

  const planfile::ProgramT &program() const { return program_; }
  uint32_t ranks() const;
  std::byte *arena(uint32_t rank) const;
  // Returns the bytes of a state of the rank's stage, in its arena or shared.
  std::byte *stateOf(uint32_t rank, const planfile::StateShardT &state) const;
  // Returns whether the rank must fill the state, and not another rank that shares it.
  bool fills(uint32_t rank, const planfile::StateShardT &state) const;
  // Makes shared states read-only, once all states are filled: a later write faults.
  void seal() const;
  const std::optional<SharedStates> &shared() const;
  uint32_t stageOfRank(uint32_t rank) const;

  // Returns the collectives and sends of the first rank of each stage; fails if its ranks differ.
  support::Result<std::vector<Count>> counts() const;

  // Counts, since the start, the operations of products of routed rows and the bytes of exchanged rows on
  // all ranks, which depend on the routes.
  uint64_t groupedFlops() const;
  uint64_t exchangedBytes() const;

  unsigned workers() const { return workers_->workers(); }
  unsigned threadsPerRank() const;
  bool pinned() const { return pinning_.has_value(); }
  // Returns the hazard for which an interleaved step failed; else null.
  const Hazard *hazard() const;
  // Calls the functions of Profiler.h, or does nothing if neither was asked for.
  void printProfile(std::ostream &out) const;
  // Returns what was measured of each instruction; null without a profile.
  const Profile *profile() const;
  support::Status writeTrace(bool now);
  const std::string &traceNote() const;
  // Returns what multiplies matrices, for the start-up lines.
  const std::string &libraryNote() const;
  const Kernels &kernels() const { return kernels_; }

private:
  Executor(const planfile::ProgramT &program, const Kernels &kernels);
  support::Status prepare(const ExecutorOptions &options);
  void startThreads(const ExecutorOptions &options);
  support::Status prepareEvaluation();
  support::Status runObserved();
  Workers::Outcome round();
  support::Status endStep(Workers::Outcome outcome);
  bool approves();
  // Calls body(product) for every product of routed rows.
  template <class Body> void forGrouped(Body body) const;

  const planfile::ProgramT &program_;
  const Kernels &kernels_;
  std::optional<Pinning> pinning_;
  std::unique_ptr<LocalRanks> ranks_;
  std::unique_ptr<KernelRunner> runner_;
  std::unique_ptr<StreamEngine> engine_;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Adversary> adversary_;
  // Holds the procedures that evaluate() runs, by stage; filled by its first call.
  std::vector<std::vector<StageProgram::Procedure>> evaluation_;
  bool approvesBeforeCommit_ = true;           // outputs are written before any op that commits
  const CommitCheck *approve_ = nullptr; // null: none, or already called
  bool committing_ = false;          // weights or moments may be half updated
  bool tookBack_ = false;            // the last step
  uint64_t flopsTakenBack_ = 0, flopsAtStart_ = 0; // of products of routed rows
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_EXECUTOR_H
