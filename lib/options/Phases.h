// Lists the phases of a compilation, in order. Options, dumps and the help text derive from this
// list, which is the only one. Tests: test/numerics/tool.py (phases, dumps).
#ifndef LLMC_LIB_OPTIONS_PHASES_H
#define LLMC_LIB_OPTIONS_PHASES_H

#include <array>
#include <optional>
#include <string_view>

namespace llmc {

enum class Phase { Import, Raise, Train, Shard, Partition, Schedule, Emit };

inline constexpr std::array<std::string_view, 7> phaseNames = {
    "import", "raise", "train", "shard", "partition", "schedule", "emit"};

inline std::string_view toString(Phase phase) { return phaseNames[static_cast<size_t>(phase)]; }

inline std::optional<Phase> parsePhase(std::string_view name) {
  for (size_t i = 0; i < phaseNames.size(); ++i)
    if (phaseNames[i] == name)
      return static_cast<Phase>(i);
  return std::nullopt;
}

} // namespace llmc

#endif // LLMC_LIB_OPTIONS_PHASES_H
