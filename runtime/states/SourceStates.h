// Finds the states of a source tensor at once: a mixture of 61 layers has 45,000 sources, and as
// many states. The test is test/runtime/WeightsTest.cpp (Gather).
#ifndef LLMC_RUNTIME_STATES_SOURCESTATES_H
#define LLMC_RUNTIME_STATES_SOURCESTATES_H

#include "lib/planfile/Program.h"

#include <vector>

namespace llmc::runtime {

// Refers to a state that its stage owns, and to the view of its source.
struct OwnedState {
  uint32_t stage = 0;
  const planfile::StateShardT *state = nullptr;
  const planfile::ViewT *view = nullptr;
  bool isWeight = false; // it is the most exact copy of a weight: a master, or has none
};

// Lists the owned states by source; the program must outlive it.
class SourceStates {
public:
  explicit SourceStates(const planfile::ProgramT &program);

  // Returns the states of a source, in order of stages.
  const std::vector<OwnedState> &of(size_t source) const { return bySource_[source]; }

private:
  std::vector<std::vector<OwnedState>> bySource_;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_SOURCESTATES_H
