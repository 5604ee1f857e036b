// Runs the plan: one resumable state machine a rank, driven by a few threads.
//
// Each stream of a rank is an in-order queue with its own place in the table of
// the stage. Nothing blocks inside an instruction: a stream that must wait is
// left, and its rank woken when what it waits for may have happened.
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
  bool pin = false;            // threads to cores, as Pinning.h says
  bool useLibrary = true;      // false: the program's own matrix products
  bool share = false;          // states that nothing writes, as SharedStates.h says
  bool profile = false;        // measure every instruction
  std::optional<TraceOptions> trace;
  bool isolate = false;        // a test's: while a kernel runs, all other arenas are closed
  // Set: steps run as Adversary.h says, in an order drawn from this seed.
  std::optional<uint64_t> interleaving;
};

class Adversary;
struct Hazard;

// How often an instruction of a stage ran on one rank since the start.
struct Count {
  uint32_t stage = 0;
  uint32_t origin = 0;
  planfile::Phase phase = planfile::Phase::Forward;
  const planfile::CollectiveT *collective = nullptr; // or
  const planfile::SendT *send = nullptr;
  uint64_t calls = 0;
};

class Executor {
public:
  // `program` must have passed checkBounds() and outlive this object.
  static support::Result<std::unique_ptr<Executor>>
  create(const planfile::ProgramT &program, const Kernels &kernels, ExecutorOptions options);
  ~Executor();

  // One pass over every stage's table. `inputs[i]` is the step's global batch
  // of Program.inputs[i]: global_batch rows, dense. A failure is final.
  // `approve` is asked once whether the step is to count, when its outputs are there and,
  // if the plan allows it, before any weight or moment has changed. Its error is the step's.
  using Approve = std::function<support::Status()>;
  support::Status runStep(const std::vector<const std::byte *> &inputs,
                          const Approve &approve = {});
  // Whether weights and moments are those of whole steps: no, if one failed while it
  // changed them.
  bool statesWhole() const { return !committing_; }

  // Only what LossSlice.h finds: outputs "loss" and "tokens" are then those of these
  // inputs; no weight and no moment has changed, nor what counts() and profiles say.
  support::Status evaluate(const std::vector<const std::byte *> &inputs);

  const planfile::ProgramT &program() const { return program_; }
  uint32_t ranks() const { return static_cast<uint32_t>(ranks_.size()); }
  std::byte *arena(uint32_t rank) const { return ranks_[rank]->arena.data(); }
  // Bytes of a state of the rank's stage: in its arena, or shared.
  std::byte *stateOf(uint32_t rank, const planfile::StateShardT &state) const;
  // Is the rank to fill it? Not if another, who shares it, does.
  bool fills(uint32_t rank, const planfile::StateShardT &state) const;
  // States are filled: shared ones must not be written any more.
  void seal() const;
  const std::optional<SharedStates> &shared() const { return shared_; }
  uint32_t stageOfRank(uint32_t rank) const { return ranks_[rank]->program->stage; }

  // Collectives and sends that ran on the first rank of each stage; an error if
  // the ranks of a stage differ.
  support::Result<std::vector<Count>> counts() const;

  unsigned workers() const { return workers_->workers(); }
  unsigned threadsPerRank() const { return threads_; }
  bool pinned() const { return pinning_.has_value(); }
  // What an interleaving found, once a step failed for it; else null.
  const Hazard *hazard() const;
  // Prints what was measured, if it was.
  void printProfile(std::ostream &out) const;
  // Writes the trace, if one was asked for, once its last step has ended, or `now`.
  support::Status writeTrace(bool now);
  // What was written, for people; empty: nothing.
  const std::string &traceNote() const { return traceNote_; }
  // Who multiplies matrices, for the start-up lines.
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
  // A collective or message under way.
  struct Flight {
    bool posted = false, ended = false;
    uint64_t number = 0;
    std::vector<std::span<std::byte>> parts;
  };
  struct Stream {
    uint32_t entry = 0, position = 0;
    uint64_t begun = 0; // nanoseconds: first try of where it stands, if watched
    // Of the collective or message where it stands, or of each member of the group.
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
  struct Site { // where a stream stands
    Rank &rank;
    Stream &stream;
    const StageProgram::Entry &entry;
    const Op &op;
    unsigned worker;
    uint32_t member = 0; // of the group where the stream stands, whose message `op` is
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
  // The op where `stream` stands, moving it over empty entries; null at the end.
  const Op *current(const Rank &rank, Stream &stream, uint8_t index) const;
  bool step(const Site &site); // false: must wait
  bool run(const Site &site);
  Workers::Outcome round();
  support::Status endStep(Workers::Outcome outcome);
  // The same, with a look at the clock (ExecutorWatch.cpp).
  Workers::Poll watchedAdvance(uint32_t rank, unsigned worker);
  bool watchedStep(const Site &site);
  support::Status watchedRound();
  void traceUnfinished();
  std::string nameOf(const StageProgram &stage, const Op &op) const;
  Profile::Work workOf(uint32_t stage, size_t op) const;
  bool collective(const Site &site);
  bool messages(const Site &site); // all of a group
  bool message(const Site &site);
  // The member of a group that begins with `first`.
  static Site memberOf(const Site &first, uint32_t member) {
    return {first.rank, first.stream, first.entry, (&first.op)[member], first.worker, member};
  }
  // Whether its channel may be entered: not while an earlier member waits to enter it.
  bool mayPost(const Site &site) const;
  bool leaveGroup(const Site &first); // false: a member has not ended
  // Enters the collective or message where a stream stands. False: it must wait,
  // or failed.
  bool postCollective(const Site &site);
  bool postMessage(const Site &site);
  void leave(const Site &site); // it is complete
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
  // By stage: what evaluate() runs; made when it is first asked for.
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
  bool watched_ = false; // by one of these
  std::unique_ptr<Profile> profile_;
  std::unique_ptr<Trace> trace_;
  std::string traceNote_;
  const std::vector<const std::byte *> *inputs_ = nullptr;
  std::vector<std::vector<int64_t>> inputShapes_; // of a whole micro-batch, by input
  Wake wake_;
  bool asksInTime_ = true;             // outputs are there before an op commits
  const Approve *approve_ = nullptr;   // who has yet to be asked
  bool mayCommit_ = true;              // else ops that commit wait
  bool committing_ = false;
  std::mutex failureMutex_;
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Adversary> adversary_;
};

// Processors that this process may use.
unsigned availableCores();

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_EXECUTOR_H
