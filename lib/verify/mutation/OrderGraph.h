// Builds a graph over every rank of what orders the instructions of a plan, from the plan's text
// alone (plan.fbs defines each instruction). It shares no code with the static checkers, which
// simulate one rank of each stage with vector clocks: where both agree, two independent arguments
// hold. Tested by test/verify/EquivalenceTest.cpp.
#ifndef LLMC_LIB_VERIFY_MUTATION_ORDERGRAPH_H
#define LLMC_LIB_VERIFY_MUTATION_ORDERGRAPH_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace llmc::verify {

// Identifies one execution of one instruction by one rank.
struct Execution {
  const planfile::InstructionT *instruction = nullptr;
  const planfile::EntryT *entry = nullptr;
  uint32_t rank = 0, step = 0;
  int64_t partner = -1; // peer of a message; index into meetings() of a collective; else -1
};

// Orders the begin and the end of each execution; an edge means happens-before.
class OrderGraph {
public:
  // Builds the graph of `steps` steps of a plan that checkBounds() accepts.
  OrderGraph(const planfile::ProgramT &program, unsigned steps);

  // Returns why runs do not end: a message or collective lacks a partner, or all wait for each
  // other; empty if every run ends.
  const std::string &fault() const { return why; }

  const std::vector<Execution> &executions() const { return all; }
  // Returns the members of each collective, in group order.
  const std::vector<std::vector<uint32_t>> &collectiveGroups() const { return met; }

  // Calls begin(i) and end(i) of each execution in an order that respects all edges, all of a
  // step before the next step.
  template <class Begin, class End>
  void forEach(Begin begin, End end) const {
    for (uint32_t v : order)
      if (v < 2 * all.size())
        (v % 2 ? end(v / 2) : begin(v / 2));
  }

  // Returns the index of the first of `pairs` (of executions of one rank) whose first execution
  // is not ordered before the second by the transitive closure; -1 if all are.
  int64_t firstUnordered(const std::vector<std::pair<uint32_t, uint32_t>> &pairs) const;

private:
  // Identifies a vertex: 2i is the begin of execution i, 2i + 1 its end; from 2 * all.size() on the
  // middle of a collective.
  using Vertex = uint32_t;
  struct Builder;


  std::vector<Execution> all;
  std::vector<std::vector<uint32_t>> met;
  std::vector<std::vector<Vertex>> before; // predecessors of each vertex
  std::vector<uint32_t> stepOf;            // step of each vertex
  std::vector<Vertex> order;
  std::string why;
  uint32_t ranks = 0;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_ORDERGRAPH_H
