#include "lib/report/Experts.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/SharedStates.h"
#include "lib/support/Counted.h"

#include <algorithm>
#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
using support::text;

ExpertCount countExperts(const ProgramT &program) {
  ExpertCount count;
  for (const auto &stage : program.stages)
    for (const auto &procedure : stage->procedures)
      for (const auto &instruction : procedure->instructions) {
        const MatmulT *product = instruction->body.AsMatmul();
        if (!product || !product->routing)
          continue;
        int64_t parts = 1;
        for (size_t axis = 0; axis < product->routing->first->coefs.size(); ++axis)
          if (product->routing->first->coefs[axis] != 0)
            parts *= program.mesh->axes[axis]->size;
        count.own = std::max(count.own, product->batch);
        count.all = std::max(count.all, product->batch * parts);
      }
  return count;
}

// Counts the bytes of states and of sums of gradients that a rank of the stage has of its own experts: of what
// products of routed rows multiply by.
static uint64_t bytesOfExperts(const PlanIndex &book, uint32_t stage) {
  std::set<std::string> parameters;
  for (const auto &op : book.program.ops)
    for (const auto &operand : op->operands)
      for (const std::string &name : operand->names)
        if (op->op == "graph.grouped_matmul" && book.sourceOf(name))
          parameters.insert(book.sourceOf(name)->name);
  std::set<const StateShardT *> states; // one may hold several parameters
  for (const std::string &name : parameters)
    for (const StateShardT *state : book.statesOf(stage, name))
      states.insert(state);
  uint64_t bytes = 0;
  for (const StateShardT *state : states)
    bytes += elementsOf(state->local_shape) * byteSize(state->dtype);
  return bytes;
}

json expertAlternatives(const PlanIndex &book, const Traffic &t) {
  const MeshT &mesh = *book.program.mesh;
  uint64_t ep = sizeOf(mesh, AxisRole::Expert), edp = sizeOf(mesh, AxisRole::ExpertData);
  uint64_t moved = t.bytes * t.perStep, held = bytesOfExperts(book, t.stage);
  auto leaving = [&](uint64_t ranks) { return moved / ranks * (ranks - 1); };
  uint64_t experts = uint64_t(countExperts(book.program).all);
  json list = json::array();
  for (uint64_t other : {ep / 2, ep * 2}) {
    // A larger ep takes ranks of edp; a smaller one gives them to it.
    if (other == 0 || experts % other != 0 || (other > ep && edp % 2 != 0))
      continue;
    uint64_t states = held * ep / other;
    list.push_back({{"name", text("ep ", other)},
                    {"step_bytes", other == 1 ? 0 : moved},
                    {"leaving_bytes", leaving(other)},
                    {"memory_bytes", int64_t(states) - int64_t(held)},
                    {"text", text("--ep ", other, ": ", other == 1 ? "no such call" : text("rows are as many, and "
                                  "1/", other, " of them stay where they are in place of 1/", ep, " (", groupDigits(leaving(other)),
                                  " bytes a step leave the rank in place of ", groupDigits(leaving(ep)), ")"),
                                  "; a rank holds ", support::counted(experts / other, "expert"), " of a layer in place of ",
                                  experts / ep, ": ", groupDigits(states), " bytes of their states in place of ", groupDigits(held),
                                  ", and sums their gradients over ", edp * ep / other, " ranks in place of ", edp)}});
  }
  return list;
}

} // namespace llmc::report
