#include "runtime/cpu/TraceWriter.h"

#include "lib/planfile/AxisNames.h"
#include "runtime/cpu/InstructionName.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>

using namespace llmc;
using namespace llmc::runtime;
using planfile::Body;
using support::Status;
using support::text;

namespace {

constexpr size_t kFlushBytes = 1 << 20;

// Returns the row of a rank that shows the entries of its table, below its streams.
uint32_t scheduleRow(const planfile::ProgramT &program) {
  uint32_t streams = 0;
  for (const auto &stage : program.stages)
    streams = std::max(streams, stage->streams);
  return streams;
}

bool isMessage(Body kind) { return kind == Body::Send || kind == Body::Recv; }

} // namespace

planfile::Message TraceWriter::messageOf(const TraceEvent &event) const {
  return *planfile::messageOf(stageOf(event.rank).instructionOf(event.op));
}

std::vector<uint32_t> TraceWriter::groupOf(const TraceEvent &event) const {
  return planfile::groupOf(*program_.mesh, *stageOf(event.rank).collectives[opOf(event).index], event.rank);
}

double TraceWriter::time(uint64_t nanoseconds) const {
  return double(nanoseconds - trace_.start()) / 1000;
}

Status TraceWriter::write() {
  support::Result<support::OutputFile> file = support::OutputFile::create(trace_.options().path);
  if (!file)
    return file.takeError();
  file_ = &*file;
  events_ = trace_.events();
  auto place = [&](const TraceEvent &e) {
    return std::tuple(e.rank, opOf(e).stream, e.begin, e.end, e.step, e.entry, e.op);
  };
  std::sort(events_.begin(), events_.end(),
            [&](const TraceEvent &x, const TraceEvent &y) { return place(x) < place(y); });
  buffer_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  metadata();
  instructions();
  arrows();
  Json other = {{"model", program_.model->name},        {"schedule", program_.schedule},
                {"workers", subject_.workers},          {"threads_per_rank", subject_.threads},
                {"first_step", trace_.options().first}, {"steps", trace_.steps()},
                {"dropped", trace_.dropped()}};
  buffer_ += "\n], \"otherData\": " + support::jsonText(other) + "}\n";
  if (status_)
    status_ = file_->write(buffer_);
  return status_ ? file_->commit() : std::move(status_);
}

void TraceWriter::put(const Json &event) {
  buffer_ += first_ ? "" : ",\n";
  first_ = false;
  buffer_ += support::jsonText(event);
  if (buffer_.size() < kFlushBytes)
    return;
  if (status_)
    status_ = file_->write(buffer_);
  buffer_.clear();
}

// Returns what a stream is for, by the kinds of its instructions.
std::string TraceWriter::streamName(const StageProgram &stage, uint32_t stream) const {
  bool computes = false, reduces = false, sends = false;
  for (const Op &op : stage.ops)
    if (op.stream == stream) {
      computes |= op.kind == Body::Launch || op.kind == Body::Matmul;
      reduces |= op.kind == Body::Collective;
      sends |= isMessage(op.kind);
    }
  return text("stream ", stream, computes ? " compute" : "", reduces ? " collectives" : "",
              sends ? " messages" : "");
}

void TraceWriter::metadata() {
  uint32_t schedule = scheduleRow(program_);
  auto name = [&](const char *what, uint32_t rank, uint32_t row, const Json &args) {
    put({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"ts", 0}, {"args", args}});
  };
  std::set<uint32_t> ranks;
  for (const TraceEvent &event : events_)
    ranks.insert(event.rank);
  for (uint32_t rank : ranks) {
    const StageProgram &stage = stageOf(rank);
    std::string title = text("rank ", rank, ", stage ", stage.stage, " (");
    title += planfile::coordinateText(*program_.mesh, planfile::coordinateOf(*program_.mesh, rank)) + ")";
    name("process_name", rank, 0, {{"name", title}});
    name("process_sort_index", rank, 0, {{"sort_index", rank}});
    for (uint32_t s = 0; s < stage.plan->streams; ++s) {
      name("thread_name", rank, s, {{"name", streamName(stage, s)}});
      name("thread_sort_index", rank, s, {{"sort_index", s + 1}});
    }
    name("thread_name", rank, schedule, {{"name", "schedule"}});
    name("thread_sort_index", rank, schedule, {{"sort_index", 0}});
  }
}

void TraceWriter::instructions() {
  for (const TraceEvent &event : events_)
    instruction(event);
  auto at = events_.begin();
  while (at != events_.end()) {
    auto end = std::find_if(at, events_.end(), [&](const TraceEvent &e) {
      return e.rank != at->rank || opOf(e).stream != opOf(*at).stream;
    });
    if (opOf(*at).stream == 0)
      entries({at, end});
    at = end;
  }
}

void TraceWriter::describe(const TraceEvent &event, std::string &name, Json &args) const {
  const StageProgram &stage = stageOf(event.rank);
  const Op &op = opOf(event);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < op.buffers; ++i)
    bytes += stage.buffers[op.firstBuffer + i].size;
  name = nameOf(program_, stage, op, op.kind == Body::Matmul && subject_.byLibrary(stage.stage, op.index));
  if (op.kind == Body::Collective) {
    const planfile::CollectiveT &what = *stage.collectives[op.index];
    bytes = planfile::payloadBytes(*program_.mesh, what);
    args["ranks"] = groupOf(event);
    args["call"] = event.number;
  } else if (isMessage(op.kind)) {
    args[op.kind == Body::Send ? "to_rank" : "from_rank"] = peerOf(event);
    args["call"] = event.number;
  } else if (op.kind == Body::Matmul) {
    const planfile::MatmulT &m = *stage.matmuls[op.index];
    if (m.routing)
      args["groups"] = m.batch; // its operations depend on the routes
    else
      args["flops"] = 2 * m.batch * m.m * m.n * m.k;
  }
  args["bytes"] = bytes;
}

void TraceWriter::instruction(const TraceEvent &event) {
  const StageProgram &stage = stageOf(event.rank);
  const StageProgram::Entry &entry = stage.table[event.entry];
  const Op &op = opOf(event);
  const planfile::OriginT &origin = *program_.origins[op.origin];
  uint32_t place = event.op - stage.procedures[entry.procedure].firstOp;
  const auto &instruction = *stage.plan->procedures[entry.procedure]->instructions[place];
  Json args = {{"op", origin.op}, {"nodes", origin.nodes}};
  if (!origin.tactic.empty())
    args["tactic"] = origin.tactic;
  if (!origin.rule.empty())
    args["rule"] = origin.rule;
  args["phase"] = toString(instruction.phase);
  args["stage"] = stage.stage;
  args["micro_batch"] = entry.lanes[op.lane].microBatch;
  args["slot"] = entry.lanes[op.lane].slot;
  args["step"] = event.step;
  args["entry"] = event.entry;
  args["instruction"] = place;
  args["worker"] = event.worker;
  if (event.unfinished)
    args["unfinished"] = true;
  std::string name;
  describe(event, name, args);
  put({{"ph", "X"},
       {"name", name},
       {"cat", toString(op.kind)},
       {"pid", event.rank},
       {"tid", op.stream},
       {"ts", time(event.begin)},
       {"dur", double(event.end - event.begin) / 1000},
       {"args", args}});
}

// Writes one bar for each entry of the table, as stream 0 of a rank ran it.
void TraceWriter::entries(std::span<const TraceEvent> row) {
  const StageProgram &stage = stageOf(row.front().rank);
  for (size_t at = 0; at < row.size();) {
    size_t end = at;
    while (end < row.size() && row[end].step == row[at].step && row[end].entry == row[at].entry)
      ++end;
    const StageProgram::Entry &entry = stage.table[row[at].entry];
    put({{"ph", "X"},
         {"name",
          text(stage.plan->procedures[entry.procedure]->name, " ", entry.lanes[0].microBatch)},
         {"cat", "schedule"},
         {"pid", row[at].rank},
         {"tid", scheduleRow(program_)},
         {"ts", time(row[at].begin)},
         {"dur", double(row[end - 1].end - row[at].begin) / 1000},
         {"args", {{"step", row[at].step}, {"slot", entry.lanes[0].slot}}}});
    at = end;
  }
}

void TraceWriter::arrow(const TraceEvent &from, const TraceEvent &to, const char *kind) {
  auto end = [&](const char *phase, const TraceEvent &event, uint64_t when) {
    Json made = {{"ph", phase},     {"id", arrows_},     {"name", kind},
                 {"cat", kind},     {"pid", event.rank}, {"tid", opOf(event).stream},
                 {"ts", time(when)}};
    if (*phase == 'f')
      made["bp"] = "e"; // the arrow binds to the enclosing bar
    put(made);
  };
  ++arrows_;
  end("s", from, from.begin);
  end("f", to, std::max(from.begin, to.begin));
}

void TraceWriter::arrows() {
  messageArrows();
  collectiveArrows();
}

void TraceWriter::messageArrows() {
  // Finds both ends of each message by source, destination, channel and number.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>, std::array<const TraceEvent *, 2>> ends;
  for (const TraceEvent &event : events_)
    if (isMessage(opOf(event).kind) && !event.unfinished) {
      planfile::Message message = messageOf(event);
      uint32_t peer = peerOf(event);
      if (message.sends)
        ends[{event.rank, peer, message.channel, event.number}][0] = &event;
      else
        ends[{peer, event.rank, message.channel, event.number}][1] = &event;
    }
  for (const auto &[message, sides] : ends)
    if (sides[0] && sides[1]) // else one was dropped
      arrow(*sides[0], *sides[1], "message");
}

void TraceWriter::collectiveArrows() {
  // Finds the members of each call by its ranks, stream and number.
  std::map<std::tuple<std::vector<uint32_t>, uint8_t, uint64_t>, std::vector<const TraceEvent *>> calls;
  for (const TraceEvent &event : events_)
    if (opOf(event).kind == Body::Collective && !event.unfinished)
      calls[{groupOf(event), opOf(event).stream, event.number}].push_back(&event);
  for (const auto &[call, members] : calls) {
    auto last = std::max_element(
        members.begin(), members.end(),
        [](const TraceEvent *x, const TraceEvent *y) { return x->begin < y->begin; });
    for (const TraceEvent *member : members)
      if (member != *last)
        arrow(**last, *member, "collective");
  }
}
