#include "runtime/session/RouteRecorder.h"

#include "runtime/plan/Shard.h"

using namespace llmc;
using namespace llmc::runtime;
using planfile::ProgramT;
using planfile::RoutesT;

RouteRecorder::RouteRecorder(const ProgramT &program, const ProgramT *retry) {
  addPlan(program);
  if (retry)
    addPlan(*retry);
}

void RouteRecorder::addPlan(const ProgramT &program) {
  std::map<std::string, const RoutesT *> wanted = planfile::finalRoutes(program);
  planfile::forEachRoutes(program, [&](const planfile::LaunchT &, const RoutesT &routes) {
    if (routes.kind != wanted[routes.router]->kind)
      return;
    planfile::RoutesLayout layout(program, routes);
    Step &step = current_[routes.router];
    step.shape.assign(layout.shape().begin(), layout.shape().end());
    step.experts.resize(layout.size(), -1);
    sources_.emplace(&routes, Source{layout, &program, &step.experts});
  });
}

RoutesHook RouteRecorder::hook() {
  return [this](const WrittenRoutes &written) { record(written); };
}

void RouteRecorder::record(const WrittenRoutes &written) {
  auto found = sources_.find(&written.of);
  // Leaves out what is computed again: the forward has written the same.
  if (found == sources_.end() || written.phase != planfile::Phase::Forward)
    return;
  const auto &[layout, program, to] = found->second;
  if (!isFirstHolder(written.of.dims, program->stage_axis, written.coordinate))
    return;
  forEachRun(Shard(written.of, *program->mesh, written.coordinate), denseView(written.of.global_shape),
             [&](int64_t local, int64_t element, int64_t choices, int64_t) {
               int64_t at = layout.elementOf(element, written.microBatch);
               for (int64_t c = 0; c < choices; ++c)
                 (*to)[at + c] = static_cast<int32_t>(written.routes[local + c]);
             });
}

void RouteRecorder::keepStep() { last_ = current_; }
