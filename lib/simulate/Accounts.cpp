#include "lib/simulate/Accounts.h"

#include "lib/planfile/AxisNames.h"

#include <algorithm>
#include <set>
#include <tuple>

using namespace llmc;
using namespace llmc::simulate;
using planfile::Body;
using runtime::Op;
using runtime::StageProgram;

namespace {

// Returns what users call the axes of a collective or message; empty for other ops.
std::string axesOf(const planfile::ProgramT &program, const StageProgram &stage, uint32_t index) {
  const Op &op = stage.ops[index];
  if (op.kind == Body::Collective)
    return planfile::joinedUserNames(*program.mesh, stage.collectives[op.index]->axes, " ");
  if (op.kind == Body::Send || op.kind == Body::Recv)
    return planfile::joinedUserNames(*program.mesh, {planfile::messageOf(stage.instructionOf(index))->axis});
  return "";
}

bool computes(Body kind) {
  return kind == Body::Launch || kind == Body::Matmul || kind == Body::Copy || kind == Body::Fill || kind == Body::Feed;
}

} // namespace

RankTime simulate::accountOf(const planfile::ProgramT &program, const StageProgram &stage, uint32_t rank,
                             Timeline &timeline) {
  RankTime time;
  time.rank = rank;
  time.stage = stage.stage;
  // Marks where something begins (+1) and ends (-1); compute has no axis.
  struct Mark {
    uint64_t when;
    int change;
    uint64_t begun;
    const std::string *axes;
    size_t event;
    bool operator<(const Mark &other) const { return when < other.when; }
  };
  std::vector<std::string> names(stage.ops.size());
  for (uint32_t op = 0; op < names.size(); ++op)
    names[op] = axesOf(program, stage, op);
  static const std::string kCompute;
  std::vector<Mark> marks;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const runtime::TraceEvent &event = timeline.events[i];
    uint64_t begin = timeline.moved[i];
    if (event.rank != rank || begin >= event.end)
      continue;
    const Op &op = stage.ops[event.op];
    const std::string *axes = computes(op.kind) ? &kCompute : names[event.op].empty() ? nullptr : &names[event.op];
    if (!axes)
      continue;
    marks.push_back({begin, 1, begin, axes, i});
    marks.push_back({event.end, -1, begin, axes, i});
  }
  std::sort(marks.begin(), marks.end());
  std::set<std::tuple<uint64_t, const std::string *, size_t>> flying;
  int computing = 0;
  double before = 0;
  auto account = [&](double now) {
    double length = now - before;
    before = now;
    if (computing > 0)
      time.compute += length;
    else if (!flying.empty()) {
      auto [begun, axes, event] = *flying.begin();
      time.exposed[*axes] += length;
      timeline.exposed[event] += length;
    } else
      time.idle += length;
  };
  for (const Mark &mark : marks) {
    account(double(mark.when) * 1e-9);
    if (mark.axes == &kCompute)
      computing += mark.change;
    else if (mark.change > 0)
      flying.insert({mark.begun, mark.axes, mark.event});
    else
      flying.erase({mark.begun, mark.axes, mark.event});
  }
  account(std::max(before, timeline.step)); // marks are whole nanoseconds
  return time;
}
