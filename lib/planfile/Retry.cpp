#include "lib/planfile/Retry.h"

#include "lib/planfile/Routes.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::planfile;
using support::error;
using support::Status;

namespace {

bool isSameMesh(const MeshT &a, const MeshT &b) {
  return std::equal(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                    [](const auto &x, const auto &y) { return x->name == y->name && x->size == y->size; });
}

bool isSameInput(const InputBindingT &a, const InputBindingT &b) {
  return a.name == b.name && a.dtype == b.dtype && a.local_shape == b.local_shape && a.batch_axes == b.batch_axes &&
         a.permuted_dim == b.permuted_dim && a.block_order == b.block_order;
}

bool isSameState(const StateShardT &a, const StateShardT &b) {
  bool isSameFlat = bool(a.flat) == bool(b.flat) &&
                    (!a.flat || (a.flat->group == b.flat->group && a.flat->begin == b.flat->begin));
  bool isSameCut = std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                              [](const auto &x, const auto &y) { return x->axes == y->axes; });
  bool isPlacedAlike = a.buffer->offset == b.buffer->offset && a.buffer->size == b.buffer->size;
  return a.name == b.name && a.role == b.role && a.dtype == b.dtype && a.global_shape == b.global_shape &&
         a.local_shape == b.local_shape && a.only_axes == b.only_axes && a.only_at == b.only_at && isSameFlat &&
         isSameCut && isPlacedAlike;
}

// Returns what outlives a step: sums of gradients may lie elsewhere.
std::vector<const StateShardT *> lastingStates(const StageT &stage) {
  std::vector<const StateShardT *> states;
  for (const auto &state : stage.states)
    if (state->role != StateRole::Accumulator)
      states.push_back(state.get());
  return states;
}

std::map<std::string, std::vector<int64_t>> shapesOfRoutes(const ProgramT &program) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto &[router, routes] : finalRoutes(program))
    shapes[router] = routes->global_shape;
  return shapes;
}

} // namespace

Status planfile::checkRetry(const ProgramT &first, const ProgramT &retry) {
  auto differ = [](const auto &...what) { return error("the plan for retries differs from the first in ", what...); };
  if (!isSameMesh(*first.mesh, *retry.mesh) || first.stages.size() != retry.stages.size() ||
      first.stage_axis != retry.stage_axis)
    return differ("its mesh");
  if (first.micro_batch != retry.micro_batch || first.micro_batches != retry.micro_batches ||
      first.optimizer != retry.optimizer || first.mode != retry.mode)
    return differ("the rows of a step or the optimizer");
  if (!std::equal(first.inputs.begin(), first.inputs.end(), retry.inputs.begin(), retry.inputs.end(),
                  [](const auto &a, const auto &b) { return isSameInput(*a, *b); }))
    return differ("its inputs");
  if (shapesOfRoutes(first) != shapesOfRoutes(retry))
    return differ("its routers");
  for (size_t stage = 0; stage < first.stages.size(); ++stage) {
    auto a = lastingStates(*first.stages[stage]), b = lastingStates(*retry.stages[stage]);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
      if (i >= a.size() || i >= b.size() || !isSameState(*a[i], *b[i]))
        return differ("state ", i, " of stage ", stage, " ('", (i < a.size() ? a : b)[i]->name, "')");
  }
  return support::ok();
}

support::Result<std::unique_ptr<ProgramT>> planfile::readRetry(const Payload &payload) {
  if (!payload.has(kRetryPlanSection))
    return std::unique_ptr<ProgramT>();
  auto retry = readProgram(*payload.section(kRetryPlanSection));
  if (!retry)
    return error("the plan for retries: ", retry.message());
  return retry;
}
