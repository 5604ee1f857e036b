// States that no instruction writes, in memory once for all ranks of the process
// that hold the same part of the same tensor.
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

class SharedStates {
public:
  // Finds them and turns the buffers of `stages` that name them to bases of their
  // own. A state is shared if it is filled from the model's tensors, every access to
  // its bytes is a read inside of it, and at least two ranks hold the same part.
  static support::Result<SharedStates> find(const planfile::ProgramT &program,
                                            std::vector<std::unique_ptr<StageProgram>> &stages);

  // Where the base `base` (from 1; Buffer::base) of a rank lies; null: in its arena.
  std::byte *at(uint32_t rank, uint32_t base) const;
  // The base of a state of a stage; 0: its bytes lie in the arenas of its ranks.
  uint32_t baseOf(uint32_t stage, const planfile::StateShardT &state) const;
  // Place in the arena of what `base` of a stage stands for.
  uint64_t arenaOffset(uint32_t stage, uint32_t base) const {
    return bases_[stage][base - 1]->buffer->offset;
  }
  uint32_t bases(uint32_t stage) const { return static_cast<uint32_t>(bases_[stage].size()); }
  // Of all that share these bytes, `rank` is the one to fill them.
  bool fills(uint32_t rank, uint32_t base) const;
  // From here on a write to any of them faults.
  void seal() const;

  // What they are, and what they would be in the arenas.
  uint64_t tensors() const { return parts_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t bytesInArenas() const { return bytesInArenas_; }

private:
  // Some elements of a tensor.
  struct Part {
    uint64_t offset = 0, size = 0; // in memory_
    uint32_t rank = 0, base = 0;   // who fills it
    uint64_t holders = 0;
  };
  static constexpr uint32_t kNone = ~0u;

  std::vector<Part> parts_;
  std::vector<std::vector<const planfile::StateShardT *>> bases_; // by stage, base - 1
  std::vector<std::vector<uint32_t>> partOf_; // by rank, base - 1; kNone: alone in its arena
  std::optional<Arena> memory_;
  uint64_t bytes_ = 0, bytesInArenas_ = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_CPU_SHAREDSTATES_H
