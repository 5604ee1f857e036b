// Sets up the ranks of this process: stage programs, arenas, shared states, communicators and
// channels. The other parts of the executor borrow them from here. The tests are
// test/runtime/ExecutorTest.cpp and WeightsTest.cpp (EqualStatesLieInMemoryOnce).
#ifndef LLMC_RUNTIME_CPU_LOCALRANKS_H
#define LLMC_RUNTIME_CPU_LOCALRANKS_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "runtime/cpu/ExecutorOptions.h"
#include "runtime/cpu/Rank.h"
#include "runtime/cpu/SharedStates.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace llmc::runtime {

// Owns the ranks and what connects them.
class LocalRanks {
public:
  // Makes all ranks of `program`, which must outlive them, with zeroed arenas or over those of
  // `options.over`, which must outlive them too. `options.share` keeps states that nothing writes once for
  // all ranks (SharedStates.h). Fails if memory does not suffice.
  static support::Result<std::unique_ptr<LocalRanks>> create(const planfile::ProgramT &program,
                                                             const ExecutorOptions &options);

  const planfile::ProgramT &program() const { return program_; }
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  Rank &operator[](uint32_t id) const { return *ranks_[id]; }
  const std::vector<std::unique_ptr<Rank>> &all() const { return ranks_; }
  const std::vector<std::unique_ptr<StageProgram>> &stages() const { return stages_; }
  const std::optional<SharedStates> &shared() const { return shared_; }

  // Returns the bytes of a state of the rank's stage, in its arena or shared.
  std::byte *stateOf(uint32_t rank, const planfile::StateShardT &state) const;
  // Returns whether the rank must fill the state, and not another rank that shares it.
  bool fills(uint32_t rank, const planfile::StateShardT &state) const;

  // Puts every stream at the start of its table and forgets all events.
  void rewind();
  // Drops a step that rewind() began and that stands still: what is in flight, and its counts.
  void takeBack();
  // Counts the bytes of rows that all communicators have exchanged.
  uint64_t exchangedBytes() const;
  // Makes all channels leave their copies to Channel::finish().
  void deferMessages();

private:
  explicit LocalRanks(const planfile::ProgramT &program) : program_(program) {}
  support::Status mapArenas(const ExecutorOptions &options);
  support::Status checkMemory(const LocalRanks *over) const;
  void mapBases(Rank &rank) const;
  void connect(Rank &rank);
  void joinCommunicators(Rank &rank);
  void openChannels(Rank &rank);

  const planfile::ProgramT &program_;
  uint64_t exchangedBefore_ = 0; // the bytes of communicators that are no more
  uint64_t exchangedAtStart_ = 0; // of the step
  std::vector<std::unique_ptr<StageProgram>> stages_;
  std::optional<SharedStates> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  // Holds the communicators by their ranks and stream, the channels by source, destination and
  // number.
  std::map<std::pair<std::vector<uint32_t>, uint8_t>, std::unique_ptr<Communicator>> communicators_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::unique_ptr<Channel>> channels_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_LOCALRANKS_H
