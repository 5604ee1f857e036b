#include "runtime/session/RouteRecorder.h"

#include "runtime/plan/Shard.h"

#include <algorithm>
#include <numeric>

using namespace llmc;
using namespace llmc::runtime;
using planfile::ProgramT;
using planfile::RoutesT;

RouteRecorder::RouteRecorder(const ProgramT &program, const ProgramT *retry, bool keeps) : keeps_(keeps) {
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
    std::vector<uint64_t> &rows = rows_[routes.router];
    rows.resize(routes.experts);
    std::vector<int32_t> *to = nullptr;
    if (keeps_) {
      Step &step = current_[routes.router];
      step.shape.assign(layout.shape().begin(), layout.shape().end());
      step.experts.resize(layout.size(), -1);
      to = &step.experts;
    }
    sources_.emplace(&routes, Source{layout, &program, to, &rows});
  });
}

RoutesHook RouteRecorder::hook() {
  if (sources_.empty())
    return {};
  return [this](const WrittenRoutes &written) { record(written); };
}

void RouteRecorder::beginAttempt() {
  for (auto &[router, rows] : rows_)
    std::fill(rows.begin(), rows.end(), 0);
}

double RouteRecorder::largestLoad() const {
  double largest = 0;
  for (const auto &[router, rows] : rows_) {
    double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
    if (sum > 0)
      largest = std::max(largest, double(*std::max_element(rows.begin(), rows.end())) * double(rows.size()) / sum);
  }
  return largest;
}

void RouteRecorder::record(const WrittenRoutes &written) {
  auto found = sources_.find(&written.of);
  // Leaves out what is computed again: the forward has written the same.
  if (found == sources_.end() || written.phase != planfile::Phase::Forward)
    return;
  const auto &[layout, program, to, rows] = found->second;
  if (!isFirstHolder(written.of.dims, program->stage_axis, written.coordinate))
    return;
  std::vector<uint64_t> own(rows->size()); // apart from those of other ranks, which run at the same time
  forEachRun(Shard(written.of, *program->mesh, written.coordinate), denseView(written.of.global_shape),
             [&](int64_t local, int64_t element, int64_t choices, int64_t) {
               const int64_t *chosen = written.routes + local;
               for (int64_t c = 0; c < choices; ++c)
                 if (static_cast<uint64_t>(chosen[c]) < own.size()) // -1: a limit has dropped it
                   ++own[chosen[c]];
               if (!to)
                 return;
               int64_t at = layout.elementOf(element, written.microBatch);
               for (int64_t c = 0; c < choices; ++c)
                 (*to)[at + c] = static_cast<int32_t>(chosen[c]);
             });
  std::lock_guard lock(rowsMutex_);
  for (size_t expert = 0; expert < own.size(); ++expert)
    (*rows)[expert] += own[expert];
}

void RouteRecorder::keepStep() { last_ = current_; }
