// Finds the values that live in an arena during one step: bytes from the instruction that
// writes them to the one that overwrites them, and the instructions that read them between.
// Adversary.h uses it. The test is test/runtime/AdversaryTest.cpp.
#ifndef LLMC_RUNTIME_PLAN_VALUES_H
#define LLMC_RUNTIME_PLAN_VALUES_H

#include "lib/planfile/Trace.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace llmc::runtime {

// Identifies no node. Nodes number the executions of instructions of one stage in issue
// order, from 0 for the first instruction of the first table entry.
inline constexpr uint32_t kNoNode = ~0u;

// Describes the live range of one value.
struct Value {
  uint64_t begin = 0, end = 0; // arena bytes
  uint32_t writer = kNoNode;   // kNoNode: written before the step
  uint32_t overwriter = kNoNode;   // the node that overwrites it; kNoNode: none in this step
  uint32_t readers = 0;        // distinct nodes
  bool kept = false;           // persistent, or read by the host
};

// Holds the values of a stage, which are the same on all its ranks.
struct StageValues {
  StageValues(const planfile::Trace &trace, uint32_t stage);

  std::vector<Value> values;
  // Maps each node to indices into `values` that it reads, writes and overwrites.
  std::vector<std::vector<uint32_t>> reads, writes, overwrites;
  // Lists the byte ranges [begin, end) that hold something before the step; disjoint,
  // ascending.
  std::vector<std::pair<uint64_t, uint64_t>> persistent;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_PLAN_VALUES_H
