// What orders the instructions of a plan, as a graph over every rank, built from the plan's
// text alone (plan.fbs says what each instruction means). It shares no code with the static
// checkers, which walk one rank of each stage with vector clocks: where both agree, two
// arguments hold.
#ifndef LLMC_LIB_VERIFY_MUTATION_ORDERGRAPH_H
#define LLMC_LIB_VERIFY_MUTATION_ORDERGRAPH_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace llmc::verify {

// One execution of one instruction by one rank.
struct Execution {
  const planfile::InstructionT *instruction = nullptr;
  const planfile::EntryT *entry = nullptr;
  uint32_t rank = 0, step = 0;
  int64_t partner = -1; // of a receive: its send; of a collective: index into meetings
};

// Each execution begins and ends; an edge says that something has happened before.
class OrderGraph {
public:
  // `steps` steps of a plan that checkBounds() accepts.
  OrderGraph(const planfile::ProgramT &program, unsigned steps);

  // Why no run gets to its end: somebody is alone at a message or a collective, or all wait
  // for each other; empty if every run does.
  const std::string &fault() const { return why; }

  const std::vector<Execution> &executions() const { return all; }
  // The members of a collective, in group order.
  const std::vector<std::vector<uint32_t>> &meetings() const { return met; }

  // Calls begin(i) and end(i) of each execution in an order that respects all edges, all of
  // a step before the next.
  template <class Begin, class End>
  void forEach(Begin begin, End end) const {
    for (uint32_t v : order)
      if (v < 2 * all.size())
        (v % 2 ? end(v / 2) : begin(v / 2));
  }

  // The first of `pairs` (of executions of one rank) whose first does not end before the
  // second begins on every path of time; -1 if there is none. By transitive closure.
  int64_t firstUnordered(const std::vector<std::pair<uint32_t, uint32_t>> &pairs) const;

private:
  using Vertex = uint32_t; // 2i: i begins; 2i + 1: i ends; behind all: the middle of a meeting
  struct Builder;


  std::vector<Execution> all;
  std::vector<std::vector<uint32_t>> met;
  std::vector<std::vector<Vertex>> before; // what has happened before each vertex
  std::vector<uint32_t> stepOf;            // of each vertex
  std::vector<Vertex> order;
  std::string why;
  uint32_t ranks = 0;
};

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_ORDERGRAPH_H
