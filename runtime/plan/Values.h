// The values that live in an arena during one step: bytes from the instruction
// that writes them to the one that overwrites them, and who reads them between.
#ifndef LLMC_RUNTIME_PLAN_VALUES_H
#define LLMC_RUNTIME_PLAN_VALUES_H

#include "lib/planfile/CheckWalk.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace llmc::runtime {

// Nodes are numbers of executions of one stage in issue order, from 0 for the
// first instruction of the first table entry.
inline constexpr uint32_t kNoNode = ~0u;

struct Value {
  uint64_t begin = 0, end = 0; // arena bytes
  uint32_t writer = kNoNode;   // none: there before the step
  uint32_t killer = kNoNode;   // who overwrites it; none: nobody in this step
  uint32_t readers = 0;        // different nodes
  bool kept = false;           // persistent, or read by the host
};

// Same for all ranks of a stage.
struct StageValues {
  StageValues(const planfile::Trace &trace, uint32_t stage);

  std::vector<Value> values;
  // By node: indices into `values`.
  std::vector<std::vector<uint32_t>> reads, writes, kills;
  // Bytes that hold something before the step; disjoint, ascending.
  std::vector<std::pair<uint64_t, uint64_t>> persistent;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PLAN_VALUES_H
