#include "lib/planfile/Trace.h"

#include "lib/planfile/AxisNames.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace llmc::planfile {

void Findings::add(Finding finding) {
  finding.checker = checker;
  std::string key = std::to_string(finding.stage) + "/" + finding.procedure + "/" +
                    std::to_string(finding.instruction) + "/" + finding.message;
  if (!seen.insert(std::move(key)).second)
    return;
  if (list.size() < kMaxFindings)
    list.push_back(std::move(finding));
  else
    ++leftOut;
}

std::vector<Finding> Findings::take() {
  if (leftOut) {
    Finding more;
    more.checker = checker;
    more.message = "and " + std::to_string(leftOut) + " more findings";
    list.push_back(std::move(more));
  }
  leftOut = 0;
  seen.clear();
  return std::move(list);
}

namespace {

// Calls `visit` for each non-empty buffer; `slotOfLane` is called for slotted buffers only.
template <class SlotOfLane>
void walkAccesses(const InstructionT &instruction, SlotOfLane slotOfLane,
                  const std::function<void(const ByteAccess &)> &visit) {
  auto touch = [&](const BufferRefT &b, bool read, bool write) {
    if (b.size == 0 || (!read && !write))
      return;
    uint64_t begin = b.offset + (b.slot_stride ? slotOfLane(b.lane) * b.slot_stride : 0);
    visit({begin, begin + b.size, read, write, b.slot_stride != 0, b.lane, b.tensor});
  };
  const BodyUnion &body = instruction.body;
  switch (body.type) {
  case Body::Launch:
    for (const auto &operand : body.AsLaunch()->operands) {
      unsigned bits = static_cast<unsigned>(operand->access);
      touch(*operand->buffer, bits & 1, bits & 2);
    }
    break;
  case Body::Matmul: {
    const MatmulT &matmul = *body.AsMatmul();
    touch(*matmul.a, true, false);
    touch(*matmul.b, true, false);
    touch(*matmul.c, matmul.accumulate, true);
    if (matmul.routing)
      touch(*matmul.routing->routes, true, false);
    break;
  }
  case Body::Collective:
    touch(*body.AsCollective()->src, true, false);
    touch(*body.AsCollective()->dst, false, true);
    if (const RowCountsT *rows = body.AsCollective()->rows.get()) {
      touch(*rows->sent, true, false);
      touch(*rows->received, true, false);
    }
    break;
  case Body::Send:
    for (const auto &part : body.AsSend()->parts)
      touch(*part, true, false);
    break;
  case Body::Recv:
    for (const auto &part : body.AsRecv()->parts)
      touch(*part, false, true);
    break;
  case Body::Copy:
    touch(*body.AsCopy()->src, true, false);
    touch(*body.AsCopy()->dst, false, true);
    break;
  case Body::Fill:
    touch(*body.AsFill()->dst, false, true);
    break;
  case Body::Feed:
    touch(*body.AsFeed()->dst, false, true);
    break;
  case Body::Record:
  case Body::Wait:
  case Body::NONE:
    break;
  }
}

} // namespace

void forEachAccess(const InstructionT &instruction, const EntryT &entry,
                   const std::function<void(const ByteAccess &)> &visit) {
  walkAccesses(instruction, [&](uint32_t lane) { return slotOf(entry, lane).slot(); }, visit);
}

void forEachAccess(const InstructionT &instruction, uint32_t slot,
                   const std::function<void(const ByteAccess &)> &visit) {
  walkAccesses(instruction, [slot](uint32_t) { return slot; }, visit);
}

std::vector<const BufferRefT *> readByHost(const StageT &stage) {
  std::vector<const BufferRefT *> buffers;
  for (const auto &output : stage.outputs)
    buffers.push_back(output->buffer.get());
  for (const auto &result : stage.results)
    buffers.push_back(result->buffer.get());
  return buffers;
}

Group stageGroup(const ProgramT &program, const CollectiveT &collective, uint32_t stage) {
  Group group;
  bool alongStages = false;
  for (uint32_t axis : collective.axes) {
    alongStages |= axis == program.stage_axis;
    group.size *= program.mesh->axes[axis]->size;
  }
  if (!collective.members.empty())
    group.size = collective.members.size();
  if (!alongStages) {
    group.stages = {stage};
    return group;
  }
  if (!collective.members.empty()) {
    group.stages = collective.members;
    std::sort(group.stages.begin(), group.stages.end());
  } else {
    group.stages.resize(program.stages.size());
    std::iota(group.stages.begin(), group.stages.end(), 0u);
  }
  group.spansStages = group.stages.size() > 1;
  return group;
}

CommunicatorKey communicatorOf(const InstructionT &instruction) {
  const CollectiveT &collective = *instruction.body.AsCollective();
  return {collective.axes, collective.members, instruction.stream};
}

std::string communicatorName(const ProgramT &program, const CollectiveT &collective) {
  std::string name = joinedUserNames(*program.mesh, collective.axes);
  if (collective.members.empty())
    return name;
  std::string list;
  for (uint32_t member : collective.members)
    list += (list.empty() ? "" : ",") + std::to_string(member);
  return name + "[" + list + "]";
}

int64_t peerStage(const ProgramT &program, uint32_t stage, const Message &message) {
  if (message.axis != program.stage_axis)
    return stage;
  auto size = static_cast<int64_t>(program.stages.size());
  int64_t peer = static_cast<int64_t>(stage) + message.delta;
  if (message.wrap)
    return (peer % size + size) % size;
  return peer < 0 || peer >= size ? -1 : peer;
}

MessageKey messageKey(const ProgramT &program, const Node &node) {
  const Message message = *messageOf(*node.inst);
  int64_t peer = peerStage(program, node.stage, message);
  MessageKey key{message.sends ? node.stage : peer, message.sends ? peer : node.stage,
                 message.channel};
  if (message.axis == program.stage_axis)
    return key;
  int64_t size = program.mesh->axes[message.axis]->size;
  int64_t hop = message.sends ? message.delta : -int64_t(message.delta);
  key.axis = message.axis;
  key.hop = (hop % size + size) % size;
  return key;
}

constexpr uint32_t kNoLink = ~0u;

Node Nodes::operator[](size_t n) const {
  const Row &row = rows[rowOf[n]];
  Node node;
  node.index = static_cast<uint32_t>(n - row.begin);
  const InstructionInfo &place = row.places[node.index];
  node.inst = place.inst;
  node.type = place.type;
  node.stage = row.stage;
  node.entry = row.entry;
  node.step = row.step;
  node.stream = place.stream;
  node.inStage = place.inStage;
  if (place.group != kNoLink)
    node.group = row.begin + place.group;
  if (links[n] != kNoLink)
    (node.type == Body::Wait ? node.record
     : node.type == Body::Collective ? node.join
                                     : node.partner) = links[n];
  return node;
}

void Nodes::beginStage(const ProgramT &program, uint32_t index, uint32_t streamBase) {
  const StageT &next = *program.stages[index];
  stage = &next;
  stageIndex = index;
  std::vector<std::vector<InstructionInfo>> &list = places.emplace_back();
  for (const auto &procedure : next.procedures) {
    list.emplace_back();
    uint32_t group = kNoLink; // index of the first message of the group
    for (const auto &inst : procedure->instructions) {
      std::optional<Message> message = messageOf(*inst);
      group = !message ? kNoLink
              : message->grouped ? group
                                 : static_cast<uint32_t>(list.back().size());
      list.back().push_back({inst.get(), streamBase + inst->stream, group, inst->body.type,
                             message && message->axis != program.stage_axis});
    }
  }
}

void Nodes::append(uint32_t entry, uint32_t step) {
  const std::vector<InstructionInfo> &list = places.back()[stage->table[entry]->procedure];
  auto begin = static_cast<uint32_t>(size()), row = static_cast<uint32_t>(rows.size());
  rows.push_back({list.data(), begin, stageIndex, entry, step});
  rowOf.resize(begin + list.size(), row);
  links.resize(rowOf.size(), kNoLink);
}

const EntryT &Trace::entryOf(const Node &node) const {
  return *program.stages[node.stage]->table[node.entry];
}

const ProcedureT &Trace::procedureOf(const Node &node) const {
  return *program.stages[node.stage]->procedures[entryOf(node).procedure];
}

uint32_t Trace::microBatchOf(const Node &node) const {
  return slotOf(entryOf(node), laneOf(*node.inst)).micro_batch();
}

bool Trace::runsPerMicroBatch(const Node &node) const {
  ProcedureKind kind = procedureOf(node).kind;
  return kind != ProcedureKind::Begin && kind != ProcedureKind::Update;
}

std::string Trace::describe(const Node &node) const {
  const OriginT &origin = *program.origins[node.inst->origin];
  std::string text = "stage " + std::to_string(node.stage) + ", " + procedureOf(node).name + "[" +
                     std::to_string(node.index) + "] " + describeBody(program, *node.inst);
  if (!origin.nodes.empty())
    text += " for " + origin.nodes.front();
  if (runsPerMicroBatch(node))
    text += ", micro-batch " + std::to_string(microBatchOf(node));
  return text + (node.step ? ", next step" : "");
}

Finding Trace::at(const Node &node, std::string message, std::string fix) const {
  Finding finding;
  finding.stage = static_cast<int>(node.stage);
  finding.procedure = procedureOf(node).name;
  finding.instruction = node.index;
  if (runsPerMicroBatch(node))
    finding.microBatch = microBatchOf(node);
  finding.message = std::move(message);
  finding.fix = std::move(fix);
  return finding;
}

namespace {

// Collects the nodes that may pair with nodes of other stages, in the order of the trace.
struct PendingMatches {
  std::vector<uint32_t> messages, collectives;
};

// Appends one stage's nodes and links each wait to the most recently issued record of its event:
// both are issued by one host thread, in table order.
void appendStage(Trace &trace, uint32_t stageIndex, unsigned steps, bool unrolled,
                 PendingMatches &meetings) {
  const StageT &stage = *trace.program.stages[stageIndex];
  const std::vector<uint32_t> slots = slotNumbers(stage);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> lastRecord;
  trace.nodes.beginStage(trace.program, stageIndex, trace.streamBase[stageIndex]);
  size_t rows = stage.table.size() / (unrolled ? steps : 1);
  for (uint32_t step = 0; step < steps; ++step) {
    for (size_t i = 0; i < rows; ++i) {
      auto row = static_cast<uint32_t>(unrolled ? step * rows + i : i);
      const EntryT &entry = *stage.table[row];
      auto n = static_cast<uint32_t>(trace.nodes.size());
      trace.nodes.append(row, step);
      auto instance = [&](const auto &event) -> std::pair<uint32_t, uint32_t> {
        SlotRef at = slotOf(entry, event.lane);
        return {event.event, event.whole_step ? slots.back() : slots[at.pool()] + at.slot()};
      };
      for (const auto &instruction : stage.procedures[entry.procedure]->instructions) {
        const BodyUnion &body = instruction->body;
        if (const WaitT *wait = body.AsWait()) {
          auto it = lastRecord.find(instance(*wait));
          if (it != lastRecord.end())
            trace.nodes.link(n, it->second);
        } else if (const RecordT *record = body.AsRecord()) {
          lastRecord[instance(*record)] = n;
        } else if (body.type == Body::Send || body.type == Body::Recv) {
          meetings.messages.push_back(n);
        } else if (body.type == Body::Collective) {
          meetings.collectives.push_back(n);
        }
        ++n;
      }
    }
  }
}

// Pairs the k-th send of a (source, destination, channel) with the k-th receive.
void matchMessages(Trace &trace, const std::vector<uint32_t> &messages) {
  std::map<MessageKey, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> queues;
  for (uint32_t n : messages) {
    Node node = trace.nodes[n];
    auto &ends = queues[messageKey(trace.program, node)];
    (node.type == Body::Send ? ends.first : ends.second).push_back(n);
  }
  for (auto &[key, ends] : queues) {
    for (size_t k = 0; k < std::min(ends.first.size(), ends.second.size()); ++k) {
      trace.nodes.link(ends.first[k], ends.second[k]);
      trace.nodes.link(ends.second[k], ends.first[k]);
    }
  }
}

// Joins the k-th collective that each stage issues on a communicator.
void matchCollectives(Trace &trace, const std::vector<uint32_t> &collectives) {
  std::map<CommunicatorKey, std::vector<std::vector<uint32_t>>> byCommunicator;
  std::map<std::pair<CommunicatorKey, uint32_t>, size_t> issued;
  for (uint32_t n : collectives) {
    Node node = trace.nodes[n];
    if (!stageGroup(trace.program, *node.inst->body.AsCollective(), node.stage).spansStages)
      continue;
    CommunicatorKey key = communicatorOf(*node.inst);
    size_t k = issued[{key, node.stage}]++;
    auto &sequence = byCommunicator[key];
    if (sequence.size() <= k)
      sequence.resize(k + 1);
    sequence[k].push_back(n);
  }
  for (auto &[key, sequence] : byCommunicator) {
    for (auto &members : sequence) {
      for (uint32_t n : members)
        trace.nodes.link(n, trace.joins.size());
      trace.joins.push_back(std::move(members));
    }
  }
}

} // namespace

Trace buildTrace(const ProgramT &program, unsigned steps, bool unrolled) {
  Trace trace{program, Nodes(), {0}, {0}, {}};
  PendingMatches meetings;
  for (uint32_t s = 0; s < program.stages.size(); ++s)
    trace.streamBase.push_back(trace.streamBase.back() + program.stages[s]->streams);
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    appendStage(trace, s, steps, unrolled, meetings);
    trace.stageBegin.push_back(trace.nodes.size());
  }
  matchMessages(trace, meetings.messages);
  matchCollectives(trace, meetings.collectives);
  return trace;
}

std::string describeBody(const ProgramT &program, const InstructionT &instruction) {
  const BodyUnion &body = instruction.body;
  auto along = [&](const Message &to) {
    return joinedUserNames(*program.mesh, {to.axis}) + (to.delta < 0 ? " - " : " + ") +
           std::to_string(to.delta < 0 ? -static_cast<int64_t>(to.delta) : to.delta) +
           (to.wrap ? " (around)" : "");
  };
  switch (body.type) {
  case Body::Launch:
    return "launch '" + program.kernels[body.AsLaunch()->kernel]->name + "'";
  case Body::Matmul:
    return body.AsMatmul()->routing ? "grouped matmul" : "matmul";
  case Body::Collective: {
    const CollectiveT &collective = *body.AsCollective();
    return std::string(toString(collective.kind)) + " over " +
           communicatorName(program, collective);
  }
  case Body::Send:
    return "send to " + along(*messageOf(instruction));
  case Body::Recv:
    return "receive from " + along(*messageOf(instruction));
  case Body::Copy:
    return "copy";
  case Body::Fill:
    return "fill";
  case Body::Feed:
    return "feed";
  case Body::Record:
    return "record of event " + std::to_string(body.AsRecord()->event);
  case Body::Wait:
    return "wait for event " + std::to_string(body.AsWait()->event);
  case Body::NONE:
    break;
  }
  return "nothing";
}

} // namespace llmc::planfile
