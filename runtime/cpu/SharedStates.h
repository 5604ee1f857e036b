// Shares states that no instruction writes: they are in memory once for all ranks of the process
// that hold the same part of the same tensor. The test is test/runtime/WeightsTest.cpp
// (EqualStatesLieInMemoryOnce, WrittenStatesStayWithTheirRanks).
#ifndef LLMC_RUNTIME_CPU_SHAREDSTATES_H
#define LLMC_RUNTIME_CPU_SHAREDSTATES_H

#include "lib/planfile/Program.h"
#include "lib/support/Error.h"
#include "runtime/cpu/Arena.h"
#include "runtime/plan/StageProgram.h"

#include <memory>
#include <optional>
#include <vector>

namespace llmc::runtime {

// Owns the memory of the shared states and maps each rank's bases to it.
class SharedStates {
public:
  // Finds these states, allocates them, and changes the buffers of `stages` inside of them to
  // bases of their own. A state is shared if it is filled from the model's tensors, every
  // access to its bytes is a read inside of it, and at least two ranks hold the same part.
  // Fails if memory cannot be mapped.
  static support::Result<SharedStates> find(const planfile::ProgramT &program,
                                            std::vector<std::unique_ptr<StageProgram>> &stages);

  // Returns the address of base `base` (from 1; Buffer::base) of a rank; null if it lies in
  // the rank's arena.
  std::byte *at(uint32_t rank, uint32_t base) const;
  // Returns the base of a state of a stage; 0 if its bytes lie in the arenas of its ranks.
  uint32_t baseOf(uint32_t stage, const planfile::StateShardT &state) const;
  // Returns the offset in the arena of the state that is `base` of a stage.
  uint64_t arenaOffset(uint32_t stage, uint32_t base) const {
    return bases_[stage][base - 1]->buffer->offset;
  }
  uint32_t bases(uint32_t stage) const { return static_cast<uint32_t>(bases_[stage].size()); }
  // Returns whether `rank` is the one that fills these bytes, of all that share them.
  bool fills(uint32_t rank, uint32_t base) const;
  // Makes all shared states read-only: a later write faults.
  void seal() const;

  // Counts distinct shared parts, their bytes with padding, and the bytes that they would
  // take in the arenas.
  uint64_t tensors() const { return parts_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t bytesInArenas() const { return bytesInArenas_; }

private:
  // Describes one shared part of a tensor.
  struct Part {
    uint64_t offset = 0, size = 0; // in memory_
    uint32_t rank = 0, base = 0;   // the rank and base that fill it
    uint64_t holders = 0;          // ranks that share it
  };
  static constexpr uint32_t kNone = ~0u;

  std::vector<Part> parts_;
  std::vector<std::vector<const planfile::StateShardT *>> bases_; // [stage][base - 1]
  std::vector<std::vector<uint32_t>> partOf_; // [rank][base - 1]; kNone: in its arena
  std::optional<Arena> memory_;
  uint64_t bytes_ = 0, bytesInArenas_ = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_SHAREDSTATES_H
