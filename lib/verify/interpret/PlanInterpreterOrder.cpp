// Runs the streams of all ranks in a drawn order, constrained by events, messages and collectives
// alone.
#include "lib/verify/interpret/PlanInterpreterParts.h"

using namespace mlir;

namespace llmc::verify::plan_interpreter {

static int64_t streamOf(Operation &op) { return op.getAttrOfType<IntegerAttr>("stream").getInt(); }

// Distributes the instructions of a step over the rank's streams. A wait refers to the latest
// record of its event issued before it (in the same slot, unless the event is of the whole step).
void PlanInterpreter::issue(Rank &rank) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> records; // event, pool, slot
  int64_t number = 0;
  for (plan::EntryAttr entry : rank.stage->table) {
    plan::ProcedureOp procedure = rank.stage->procedures.lookup(entry.getProcedure().getValue());
    for (Operation &op : procedure.getBody().front()) {
      Issued issued{&op, entry, number};
      if (isa<plan::RecordOp, plan::WaitOp>(op)) {
        auto own = op.getAttrOfType<IntegerAttr>("lane");
        plan::LaneAttr lane = entry.getLane(own ? own.getInt() : 0);
        bool whole = op.hasAttr("whole_step") || !lane;
        std::tuple key(op.getAttrOfType<IntegerAttr>("event").getInt(),
                       whole ? -1 : lane.getPool(), whole ? -1 : lane.getSlot());
        if (isa<plan::RecordOp>(op))
          records[key] = number;
        else if (auto it = records.find(key); it != records.end())
          issued.record = it->second;
      }
      rank.streams[streamOf(op)].push_back(issued);
      ++number;
    }
  }
  rank.ended.assign(number, false);
}

void PlanInterpreter::end(Rank &rank, int64_t stream, size_t place) {
  auto &queue = rank.streams[stream];
  rank.ended[queue[place].number] = true;
  queue.erase(queue.begin() + place);
}

// Counts the messages at the head of a queue that start together, as one group.
static size_t groupAt(const std::deque<Issued> &queue) {
  size_t count = 0;
  while (count < queue.size() && isa<plan::SendOp, plan::RecvOp>(queue[count].op) &&
         (count == 0 || queue[count].op->hasAttr("grouped")))
    ++count;
  return count;
}

// Completes a receive if the sender's stream is at the matching send, or at a group with it.
// Returns whether it did.
FailureOr<bool> PlanInterpreter::receive(Rank &rank, const Issued &head) {
  auto recv = cast<plan::RecvOp>(head.op);
  auto from = peer(rank, *recv, recv.getAxis(), recv.getDelta(), recv.getWrap());
  if (failed(from))
    return failure();
  Rank &sender = ranks[*from];
  for (auto &[stream, queue] : sender.streams)
    for (size_t i = 0; i < groupAt(queue); ++i) {
      auto send = dyn_cast<plan::SendOp>(queue[i].op);
      if (!send || send.getChannel() != recv.getChannel() || send.getAxis() != recv.getAxis())
        continue;
      auto to = peer(sender, *send, send.getAxis(), send.getDelta(), send.getWrap());
      if (failed(to))
        return failure();
      if (*to != rank.id)
        continue;
      if (failed(takeSlots(sender, *send, queue[i].entry)))
        return failure();
      std::vector<Tensor> message;
      for (Value part : send.getParts())
        message.push_back(read(sender, part));
      if (failed(takeSlots(rank, *recv, head.entry)) || failed(writeParts(rank, recv, message)))
        return failure();
      end(sender, stream, i);
      return true;
    }
  return false;
}

// Executes a collective if the streams of all its members are at it.
LogicalResult PlanInterpreter::collectTogether(Rank &rank, plan::CollectiveOp op, int64_t stream,
                                           bool &moved) {
  std::vector<Tensor> parts;
  std::vector<int64_t> group = groupOf(mesh, rank, op);
  if (!llvm::is_contained(group, rank.id))
    return op.emitOpError("rank ") << rank.id << " is no member of the group";
  for (int64_t id : group) {
    Rank &member = ranks[id];
    auto &queue = member.streams[stream];
    auto other = queue.empty() ? plan::CollectiveOp() : dyn_cast<plan::CollectiveOp>(queue.front().op);
    if (!other || other.getAxes() != op.getAxes() || other.getMembersAttr() != op.getMembersAttr())
      return success();
    if (failed(takeSlots(member, *other, queue.front().entry)))
      return failure();
    llvm::append_range(parts, operandsOf(member, other));
  }
  std::vector<const Tensor *> pointers;
  for (const Tensor &part : parts)
    pointers.push_back(&part);
  for (size_t i = 0; i < group.size(); ++i) {
    Rank &member = ranks[group[i]];
    auto other = cast<plan::CollectiveOp>(member.streams[stream].front().op);
    FailureOr<Tensor> result = combine(other, pointers, i, tensorOf(other.getDst()).getShape().vec());
    if (failed(result))
      return failure();
    write(member, other.getDst(), *result);
    end(member, stream);
  }
  ++collectives;
  moved = true;
  return success();
}

// Completes one receive of the group at the head of a stream, if possible. A send ends when its
// receiver takes the message.
LogicalResult PlanInterpreter::advanceMessages(Rank &rank, int64_t stream, size_t count,
                                               bool &moved) {
  auto &queue = rank.streams[stream];
  for (size_t i = 0; i < count; ++i) {
    if (!isa<plan::RecvOp>(queue[i].op))
      continue;
    FailureOr<bool> taken = receive(rank, Issued(queue[i]));
    if (failed(taken))
      return failure();
    if (*taken) {
      end(rank, stream, i);
      moved = true;
      return success();
    }
  }
  return success();
}

// Executes the head of a stream, if it can run.
LogicalResult PlanInterpreter::advanceStream(Rank &rank, int64_t stream, bool &moved) {
  auto &queue = rank.streams[stream];
  if (queue.empty())
    return success();
  const Issued head = queue.front();
  if (head.record >= 0 && !rank.ended[head.record])
    return success();
  if (size_t count = groupAt(queue))
    return advanceMessages(rank, stream, count, moved);
  if (auto together = dyn_cast<plan::CollectiveOp>(head.op))
    return collectTogether(rank, together, stream, moved);
  FailureOr<plan::LaneAttr> lane = takeSlots(rank, *head.op, head.entry);
  if (failed(lane) || failed(executeAlone(rank, *head.op, (*lane).getMicroBatch())))
    return failure();
  end(rank, stream);
  moved = true;
  return success();
}

LogicalResult PlanInterpreter::stepDrawn(std::mt19937 &random) {
  for (Rank &rank : ranks)
    issue(rank);
  for (bool left = true, moved = true; left;) {
    if (!moved)
      return module.emitError("ranks wait for each other");
    left = moved = false;
    for (size_t n = ranks.size(); n-- > 0;) {
      Rank &rank = ranks[random() % ranks.size()];
      for (auto &[stream, queue] : rank.streams)
        for (int64_t burst = random() % 8; burst > 0; --burst)
          if (failed(advanceStream(rank, stream, moved)))
            return failure();
    }
    // Try every stream if none moved: the draw decides which advance, not whether any can.
    for (Rank &rank : ranks)
      for (auto &[stream, queue] : rank.streams) {
        if (!moved && failed(advanceStream(rank, stream, moved)))
          return failure();
        left |= !queue.empty();
      }
  }
  return success();
}

FailureOr<parallel::StepOutput> PlanInterpreter::runDrawn(const NamedTensors &states,
                                                      std::mt19937 &random) {
  if (failed(prepare()))
    return failure();
  data = &trial.steps.front();
  fillDrawn(states);
  setScalars();
  if (failed(stepDrawn(random)))
    return failure();
  parallel::StepOutput output;
  for (auto role : {graph::Role::parameter, graph::Role::master, graph::Role::moment1,
                    graph::Role::moment2, graph::Role::accumulator})
    for (auto &[name, state] : gather(role, output.maxReplicaDifference))
      output.states[name] = std::move(state);
  output.outputs = parallel::isInference(module) ? gatherResults(output.maxReplicaDifference)
                                                 : gatherOutputs(output.maxReplicaDifference);
  output.collectives = collectives;
  return output;
}

} // namespace llmc::verify::machine
