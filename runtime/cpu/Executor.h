// Runs the plan: one resumable state machine a rank, driven by a few threads.
//
// Each stream of a rank is an in-order queue with its own position in the table of the stage.
// Nothing blocks inside an instruction: a stream that must wait is left, and its rank is woken
// when what it waits for may have happened. The tests are in test/runtime, first ExecutorTest.cpp.
#ifndef LLMC_RUNTIME_CPU_EXECUTOR_H
#define LLMC_RUNTIME_CPU_EXECUTOR_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "runtime/cpu/Arena.h"
#include "runtime/compute/Kernels.h"
#include "runtime/compute/Library.h"
#include "runtime/compute/Pinning.h"
#include "runtime/profile/Profile.h"
#include "runtime/cpu/SharedStates.h"
#include "runtime/plan/StageProgram.h"
#include "runtime/compute/Team.h"
#include "runtime/profile/Trace.h"
#include "runtime/transport/Transport.h"
#include "runtime/compute/Workers.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

class Adversary;
struct Hazard;

// Counts how often an instruction of a stage ran on one rank since the start.
struct Count {
  uint32_t stage = 0;
  uint32_t origin = 0;
  planfile::Phase phase = planfile::Phase::Forward;
  const planfile::CollectiveT *collective = nullptr; // or
  const planfile::SendT *send = nullptr;
  uint64_t calls = 0;
};

// Owns the ranks, their arenas and the threads that run one program.
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
  // moment has changed; its error fails the step.
  using Approve = std::function<support::Status()>;
  support::Status runStep(const std::vector<const std::byte *> &inputs,
                          const Approve &approve = {});
  // Returns false if a step failed while it changed weights and moments, else true.
  bool statesWhole() const { return !committing_; }

  // Runs only what LossSlice.h finds, for outputs "loss" and "tokens". Writes accumulators and
  // activations, but no weight, moment, count or profile. Fails under an interleaving.
  support::Status evaluate(const std::vector<const std::byte *> &inputs);

  const planfile::ProgramT &program() const { return program_; }
  uint32_t ranks() const { return static_cast<uint32_t>(ranks_.size()); }
  std::byte *arena(uint32_t rank) const { return ranks_[rank]->arena.data(); }
  // Returns the bytes of a state of the rank's stage, in its arena or shared.
  std::byte *stateOf(uint32_t rank, const planfile::StateShardT &state) const;
  // Returns whether the rank must fill the state, and not another rank that shares it.
  bool fills(uint32_t rank, const planfile::StateShardT &state) const;
  // Makes shared states read-only, once all states are filled: a later write faults.
  void seal() const;
  const std::optional<SharedStates> &shared() const { return shared_; }
  uint32_t stageOfRank(uint32_t rank) const { return ranks_[rank]->program->stage; }

  // Returns the collectives and sends of the first rank of each stage; fails if its ranks differ.
  support::Result<std::vector<Count>> counts() const;

  unsigned workers() const { return workers_->workers(); }
  unsigned threadsPerRank() const { return threads_; }
  bool pinned() const { return pinning_.has_value(); }
  // Returns the hazard for which an interleaved step failed; else null.
  const Hazard *hazard() const;
  // Prints the profile if ExecutorOptions::profile was set; measures the machine for it.
  void printProfile(std::ostream &out) const;
  // Writes a pending trace if its last step has ended or `now` is set, which ends tracing.
  support::Status writeTrace(bool now);
  // Returns a line about the trace that was written, for the user; empty if none was.
  const std::string &traceNote() const { return traceNote_; }
  // Returns what multiplies matrices, for the start-up lines.
  std::string libraryNote() const { return libraryNote_; }
  const Kernels &kernels() const { return kernels_; }

private:
  friend class Adversary; // another driver of the same instructions
  friend class TraceWriter;
  struct Member {
    Communicator *communicator = nullptr;
    uint32_t index = 0;
  };
  struct MessageEnd {
    Channel *channel = nullptr;
    Channel::Side side = Channel::Source;
  };
  // Describes a collective or message in flight.
  struct Flight {
    bool posted = false, ended = false;
    uint64_t number = 0;
    std::vector<std::span<std::byte>> parts;
  };
  struct Stream {
    uint32_t entry = 0, position = 0;
    uint64_t begun = 0; // nanoseconds: first try of the current op, if watched
    // Holds the current collective or message, or each member of the current message group.
    std::vector<Flight> flights{1};
  };
  struct Rank {
    Rank(uint32_t id, const StageProgram *program, Arena arena)
        : id(id), program(program), arena(std::move(arena)) {}
    uint32_t id;
    const StageProgram *program;
    Arena arena;
    std::vector<std::byte *> bases; // by Buffer::base
    std::vector<uint32_t> coordinate;
    std::vector<Stream> streams;
    std::vector<uint32_t> events;
    std::vector<Member> members;       // by Op::index
    std::vector<MessageEnd> messages;  // by Op::index
    std::vector<uint64_t> inputOffset; // of this rank's part, by input
    std::vector<uint64_t> collectiveCalls, messageCalls;
  };
  struct Site { // the current op of a stream
    Rank &rank;
    Stream &stream;
    const StageProgram::Entry &entry;
    const Op &op;
    unsigned worker;
    uint32_t member = 0; // index of `op` in its message group
    Flight &flight() const { return stream.flights[member]; }
  };

  Executor(const planfile::ProgramT &program, const Kernels &kernels);
  support::Status prepare(const ExecutorOptions &options);
  support::Status mapArenas();
  void connect(Rank &rank);
  Communicator *communicatorFor(const planfile::CollectiveT &collective, uint8_t stream,
                                Rank &rank, uint32_t &index);
  void prepareLibrary(const ExecutorOptions &options);
  void watch(const ExecutorOptions &options, unsigned workers);
  support::Status prepareEvaluation();
  void beginStep(const std::vector<const std::byte *> &inputs);

  Workers::Poll advance(uint32_t rank, unsigned worker);
  // Returns the current op of `stream`, after skipping empty entries; null at the end.
  const Op *current(const Rank &rank, Stream &stream, uint8_t index) const;
  bool step(const Site &site); // false: it must wait
  bool run(const Site &site);
  Workers::Outcome round();
  support::Status endStep(Workers::Outcome outcome);
  // Times what the functions without "watched" do (ExecutorWatch.cpp).
  Workers::Poll watchedAdvance(uint32_t rank, unsigned worker);
  bool watchedStep(const Site &site);
  support::Status watchedRound();
  void traceUnfinished();
  std::string nameOf(const StageProgram &stage, const Op &op) const;
  Profile::Work workOf(uint32_t stage, size_t op) const;
  bool collective(const Site &site);
  bool messages(const Site &site); // all of a group
  bool message(const Site &site);
  // Returns the site of a member of the group that begins with `first`.
  static Site memberOf(const Site &first, uint32_t member) {
    return {first.rank, first.stream, first.entry, (&first.op)[member], first.worker, member};
  }
  // Returns whether the channel may be entered: not while an earlier member of the group is about
  // to enter it in the same direction.
  bool mayPost(const Site &site) const;
  bool leaveGroup(const Site &first); // false if a member has not ended
  // Enters the current collective or message; returns false if it must wait, or failed.
  bool postCollective(const Site &site);
  bool postMessage(const Site &site);
  void leave(const Site &site); // resets the flight of a complete op and counts it
  void launch(const Site &site);
  void matmul(const Site &site);
  void feed(const Site &site);
  void fail(const Site &site, const std::string &why);
  class Isolation;

  std::string describe(const Rank &rank, const Stream &stream, const Op &op) const;
  std::string waitsFor(const Rank &rank, const Stream &stream, const Op &op,
                       uint32_t member) const;
  std::string membersOf(const Communicator &communicator, uint8_t stream) const;
  std::string blockedReport();

  const planfile::ProgramT &program_;
  const Kernels &kernels_;
  std::vector<std::unique_ptr<StageProgram>> stages_;
  // Holds the procedures that evaluate() runs, by stage; filled by its first call.
  std::vector<std::vector<StageProgram::Procedure>> evaluation_;
  std::optional<SharedStates> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<std::pair<std::vector<uint32_t>, uint8_t>, std::unique_ptr<Communicator>>
      communicators_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::unique_ptr<Channel>> channels_;
  std::unique_ptr<Library> library_;
  std::string libraryNote_;
  std::vector<std::vector<std::vector<MatmulPart>>> matmulParts_; // by stage, Op::index
  unsigned threads_ = 1;
  std::optional<Pinning> pinning_;
  std::vector<std::unique_ptr<Team>> teams_; // by worker
  bool isolate_ = false;
  bool watched_ = false; // by the profile or the trace
  std::unique_ptr<Profile> profile_;
  std::unique_ptr<Trace> trace_;
  std::string traceNote_;
  const std::vector<const std::byte *> *inputs_ = nullptr;
  std::vector<std::vector<int64_t>> inputShapes_; // of a whole micro-batch, by input
  Wake wake_;
  bool asksInTime_ = true;             // outputs are written before any op that commits
  const Approve *approve_ = nullptr;   // null: none, or already called
  bool mayCommit_ = true;              // false: ops that commit wait
  bool committing_ = false; // weights or moments may be half updated
  std::mutex failureMutex_;
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Adversary> adversary_;
};

// Returns the number of processors that this process may use.
unsigned availableCores();

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_EXECUTOR_H
