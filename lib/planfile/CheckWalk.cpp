#include "lib/planfile/CheckWalk.h"

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

void forEachAccess(const InstructionT &instruction, uint32_t slot,
                   const std::function<void(const ByteAccess &)> &visit) {
  auto touch = [&](const BufferRefT &b, bool read, bool write) {
    if (b.size == 0 || (!read && !write))
      return;
    uint64_t begin = b.offset + slot * b.slot_stride;
    visit({begin, begin + b.size, read, write, b.slot_stride != 0});
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
    break;
  }
  case Body::Collective:
    touch(*body.AsCollective()->src, true, false);
    touch(*body.AsCollective()->dst, false, true);
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
  std::string name;
  for (uint32_t axis : collective.axes)
    name += (name.empty() ? "" : "x") + program.mesh->axes[axis]->name;
  if (collective.members.empty())
    return name;
  std::string list;
  for (uint32_t member : collective.members)
    list += (list.empty() ? "" : ",") + std::to_string(member);
  return name + "[" + list + "]";
}

Direction directionOf(const InstructionT &message) {
  if (const SendT *send = message.body.AsSend())
    return {send->axis, send->delta, send->channel, send->wrap};
  const RecvT &recv = *message.body.AsRecv();
  return {recv.axis, recv.delta, recv.channel, recv.wrap};
}

int64_t peerStage(const ProgramT &program, uint32_t stage, const Direction &direction) {
  if (direction.axis != program.stage_axis)
    return stage;
  int64_t size = static_cast<int64_t>(program.stages.size());
  int64_t peer = static_cast<int64_t>(stage) + direction.delta;
  if (direction.wrap)
    return (peer % size + size) % size;
  return peer < 0 || peer >= size ? -1 : peer;
}

MessageKey messageKey(const ProgramT &program, const Node &node) {
  Direction direction = directionOf(*node.inst);
  bool sends = node.inst->body.type == Body::Send;
  int64_t peer = peerStage(program, node.stage, direction);
  MessageKey key{sends ? node.stage : peer, sends ? peer : node.stage, direction.channel};
  if (direction.axis == program.stage_axis)
    return key;
  int64_t size = program.mesh->axes[direction.axis]->size;
  int64_t hop = sends ? direction.delta : -int64_t(direction.delta);
  key.axis = direction.axis;
  key.hop = (hop % size + size) % size;
  return key;
}

const EntryT &Trace::entryOf(const Node &node) const {
  return *program.stages[node.stage]->table[node.entry];
}

const ProcedureT &Trace::procedureOf(const Node &node) const {
  return *program.stages[node.stage]->procedures[entryOf(node).procedure];
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
    text += ", micro-batch " + std::to_string(entryOf(node).micro_batch);
  return text + (node.step ? ", next step" : "");
}

Finding Trace::at(const Node &node, std::string message, std::string fix) const {
  Finding finding;
  finding.stage = static_cast<int>(node.stage);
  finding.procedure = procedureOf(node).name;
  finding.instruction = node.index;
  if (runsPerMicroBatch(node))
    finding.microBatch = entryOf(node).micro_batch;
  finding.message = std::move(message);
  finding.fix = std::move(fix);
  return finding;
}

namespace {

// Appends one stage's nodes, resolving each wait to the most recently issued
// record of its event: both are issued by one host thread, in table order.
void appendStage(Trace &trace, uint32_t stageIndex, unsigned steps) {
  const StageT &stage = *trace.program.stages[stageIndex];
  constexpr uint32_t kWholeStep = ~0u;
  std::map<std::pair<uint32_t, uint32_t>, int64_t> lastRecord;
  for (uint32_t step = 0; step < steps; ++step) {
    for (uint32_t row = 0; row < stage.table.size(); ++row) {
      const EntryT &entry = *stage.table[row];
      const ProcedureT &procedure = *stage.procedures[entry.procedure];
      for (uint32_t i = 0; i < procedure.instructions.size(); ++i) {
        const InstructionT &inst = *procedure.instructions[i];
        Node node;
        node.inst = &inst;
        node.stage = stageIndex;
        node.entry = row;
        node.index = i;
        node.step = step;
        node.stream = trace.streamBase[stageIndex] + inst.stream;
        if (const WaitT *wait = inst.body.AsWait()) {
          auto it = lastRecord.find({wait->event, wait->whole_step ? kWholeStep : entry.slot});
          node.record = it == lastRecord.end() ? -1 : it->second;
        } else if (const RecordT *record = inst.body.AsRecord()) {
          lastRecord[{record->event, record->whole_step ? kWholeStep : entry.slot}] =
              static_cast<int64_t>(trace.nodes.size());
        }
        trace.nodes.push_back(node);
      }
    }
  }
}

// Pairs the k-th send of a (source, destination, channel) with the k-th receive.
void matchMessages(Trace &trace) {
  std::map<MessageKey, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> queues;
  for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
    Node &node = trace.nodes[n];
    Body kind = node.inst->body.type;
    if (kind != Body::Send && kind != Body::Recv)
      continue;
    node.inStage = directionOf(*node.inst).axis != trace.program.stage_axis;
    auto &ends = queues[messageKey(trace.program, node)];
    (kind == Body::Send ? ends.first : ends.second).push_back(n);
  }
  for (auto &[key, ends] : queues) {
    for (size_t k = 0; k < std::min(ends.first.size(), ends.second.size()); ++k) {
      trace.nodes[ends.first[k]].partner = ends.second[k];
      trace.nodes[ends.second[k]].partner = ends.first[k];
    }
  }
}

// Joins the k-th collective that each stage issues on a communicator.
void matchCollectives(Trace &trace) {
  std::map<CommunicatorKey, std::vector<std::vector<uint32_t>>> byCommunicator;
  std::map<std::pair<CommunicatorKey, uint32_t>, size_t> issued;
  for (uint32_t n = 0; n < trace.nodes.size(); ++n) {
    const Node &node = trace.nodes[n];
    const CollectiveT *collective = node.inst->body.AsCollective();
    if (!collective)
      continue;
    if (!stageGroup(trace.program, *collective, node.stage).spansStages)
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
        trace.nodes[n].join = static_cast<int64_t>(trace.joins.size());
      trace.joins.push_back(std::move(members));
    }
  }
}

} // namespace

Trace buildTrace(const ProgramT &program, unsigned steps) {
  Trace trace{program, {}, {0}, {0}, {}};
  for (uint32_t s = 0; s < program.stages.size(); ++s)
    trace.streamBase.push_back(trace.streamBase.back() + program.stages[s]->streams);
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    appendStage(trace, s, steps);
    trace.stageBegin.push_back(trace.nodes.size());
  }
  matchMessages(trace);
  matchCollectives(trace);
  return trace;
}

std::string describeBody(const ProgramT &program, const InstructionT &instruction) {
  const BodyUnion &body = instruction.body;
  auto along = [&](const Direction &to) {
    return program.mesh->axes[to.axis]->name + (to.delta < 0 ? " - " : " + ") +
           std::to_string(to.delta < 0 ? -static_cast<int64_t>(to.delta) : to.delta) +
           (to.wrap ? " (around)" : "");
  };
  switch (body.type) {
  case Body::Launch:
    return "launch '" + program.kernels[body.AsLaunch()->kernel]->name + "'";
  case Body::Matmul:
    return "matmul";
  case Body::Collective: {
    const CollectiveT &collective = *body.AsCollective();
    return std::string(toString(collective.kind)) + " over " +
           communicatorName(program, collective);
  }
  case Body::Send:
    return "send to " + along(directionOf(instruction));
  case Body::Recv:
    return "receive from " + along(directionOf(instruction));
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
