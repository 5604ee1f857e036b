#include "lib/planfile/Trace.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace llmc::planfile {
namespace {

class Collectives {
public:
  explicit Collectives(const ProgramT &program)
      : program(program), trace(buildTrace(program, 1)), findings("collectives") {}

  std::vector<Finding> run() {
    for (Node node : trace.nodes) {
      if (node.type == Body::Collective)
        collect(node);
      else if (node.type == Body::Send || node.inst->body.type == Body::Recv)
        message(node);
    }
    for (const auto &[key, byStage] : sequences)
      compareMembers(byStage);
    for (const auto &[key, ends] : messages)
      compareEnds(key, ends);
    return findings.take();
  }

private:
  using Sequence = std::vector<Node>;
  struct Ends {
    Sequence sends, receives;
  };

  void collect(const Node &node) {
    const CollectiveT &c = *node.inst->body.AsCollective();
    Group group = stageGroup(program, c, node.stage);
    checkSizes(node, c, group);
    if (!checkMembership(node, c, group) || !group.spansStages)
      return;
    auto &byStage = sequences[communicatorOf(*node.inst)];
    for (uint32_t stage : group.stages)
      byStage[stage]; // a member that never calls is found by its empty sequence
    byStage[node.stage].push_back(node);
  }

  void checkSizes(const Node &node, const CollectiveT &c, const Group &group) {
    uint64_t shard = c.count * byteSize(c.dtype), whole = shard * group.size;
    bool exchanges = c.kind == CollectiveKind::AllToAll;
    uint64_t src = c.kind == CollectiveKind::ReduceScatter || exchanges ? whole : shard;
    uint64_t dst = c.kind == CollectiveKind::AllGather || exchanges ? whole : shard;
    if (c.kind == CollectiveKind::ExchangeRows)
      dst = c.dst->size; // which holds whole rows, as many as there is room for
    if (c.src->size != src || c.dst->size != dst)
      findings.add(trace.at(
          node,
          describeBody(program, *node.inst) + " of " + std::to_string(c.count) +
              " elements in a group of " + std::to_string(group.size) + " needs buffers of " +
              std::to_string(src) + " and " + std::to_string(dst) + " bytes, got " +
              std::to_string(c.src->size) + " and " + std::to_string(c.dst->size),
          "count is in elements: of the payload for all-reduce and broadcast, of one member's "
          "shard for all-gather and reduce-scatter, of one part for all-to-all, of the source for rows"));
  }

  bool checkMembership(const Node &node, const CollectiveT &c, const Group &group) {
    if (c.members.empty())
      return true;
    if (c.axes.size() != 1 || c.axes[0] != program.stage_axis) {
      findings.add(trace.at(node,
                            describeBody(program, *node.inst) +
                                " names members of an axis that is not the stage axis: all ranks "
                                "of a stage issue it, and some are not members",
                            "give `members` only together with the stage axis"));
      return false;
    }
    if (!std::binary_search(group.stages.begin(), group.stages.end(), node.stage)) {
      findings.add(trace.at(node,
                            describeBody(program, *node.inst) +
                                " is issued by a stage that is not among its members",
                            "add the stage to `members`, or drop the instruction there"));
      return false;
    }
    return true;
  }

  std::string signature(const Node &node) const {
    const CollectiveT &c = *node.inst->body.AsCollective();
    std::string text(toString(c.kind));
    if (c.kind == CollectiveKind::AllReduce || c.kind == CollectiveKind::ReduceScatter)
      text += c.reduce == ReduceKind::Sum ? " sum" : " max";
    text += " of " + std::to_string(c.count) + " x " + std::string(toString(c.dtype));
    if (c.rows)
      text += " in rows of " + std::to_string(c.rows->row);
    return c.slices > 1 ? text + " in " + std::to_string(c.slices) + " slices" : text;
  }

  // Compares all members with the lowest one, and reports the first difference of each.
  void compareMembers(const std::map<uint32_t, Sequence> &byStage) {
    const auto &[firstStage, expected] = *byStage.begin();
    for (auto it = std::next(byStage.begin()); it != byStage.end(); ++it) {
      const auto &[stage, got] = *it;
      size_t common = std::min(expected.size(), got.size()), k = 0;
      while (k < common && signature(expected[k]) == signature(got[k]))
        ++k;
      if (k == common && expected.size() == got.size())
        continue;
      auto side = [&](uint32_t s, const Sequence &list) {
        return "stage " + std::to_string(s) +
               (k < list.size() ? " issues " + signature(list[k]) : std::string(" issues none"));
      };
      const Node &node = k < got.size() ? got[k] : expected[k];
      findings.add(trace.at(node,
                            "members of one communicator must issue the same sequence; call " +
                                std::to_string(k) + " differs, " +
                                describeBody(program, *node.inst) + ": " +
                                side(firstStage, expected) + ", " + side(stage, got),
                            "issue the collective on every member, at the same place"));
    }
  }

  void message(const Node &node) {
    const Message message = *messageOf(*node.inst);
    if (!message.wrap && message.axis != program.stage_axis) {
      findings.add(trace.at(node,
                            describeBody(program, *node.inst) +
                                " is not along the stage axis: the last coordinate of any other "
                                "axis runs it too and has no peer",
                            "send between stages, around the axis, or use a collective"));
      return;
    }
    if (peerStage(program, node.stage, message) < 0) {
      findings.add(trace.at(node,
                            describeBody(program, *node.inst) + " leaves the mesh: there are " +
                                std::to_string(program.stages.size()) + " stages",
                            "drop it at the boundary stage, or correct delta"));
      return;
    }
    Ends &ends = messages[messageKey(program, node)];
    (message.sends ? ends.sends : ends.receives).push_back(node);
  }

  static std::string partSizes(const Node &node) {
    std::string text;
    for (const auto &part : *messageOf(*node.inst)->parts)
      text += (text.empty() ? "" : ", ") + std::to_string(part->size);
    return "[" + text + "]";
  }

  // Checks that all messages of a channel are on one stream. The k-th send meets the k-th
  // receive, and with two streams either end could issue them in another order.
  void checkOneStream(const Sequence &list) {
    for (const Node &node : list)
      if (node.inst->stream != list.front().inst->stream) {
        findings.add(trace.at(node,
                              "messages of one channel stand on streams " +
                                  std::to_string(list.front().inst->stream) + " and " +
                                  std::to_string(node.inst->stream) +
                                  ", so that one may overtake the other: " +
                                  trace.describe(list.front()) + "; " + trace.describe(node),
                              "issue all messages of a channel on one stream"));
        return;
      }
  }

  void compareEnds(const MessageKey &key, const Ends &ends) {
    checkOneStream(ends.sends);
    checkOneStream(ends.receives);
    size_t common = std::min(ends.sends.size(), ends.receives.size());
    for (size_t k = 0; k < common; ++k) {
      const Node &send = ends.sends[k], &recv = ends.receives[k];
      std::string sent = partSizes(send), expected = partSizes(recv);
      if (sent != expected)
        findings.add(trace.at(recv,
                              "message parts differ: " + trace.describe(send) + " sends bytes " +
                                  sent + ", the receive expects " + expected,
                              "list the same tensors in the same order at both ends"));
      if (trace.microBatchOf(send) != trace.microBatchOf(recv))
        findings.add(trace.at(recv,
                              "a message meets the receive of another micro-batch: " +
                                  trace.describe(send) + "; " + trace.describe(recv),
                              "issue the messages of one channel in one order at both ends"));
    }
    const Sequence &longer =
        ends.sends.size() > ends.receives.size() ? ends.sends : ends.receives;
    if (longer.size() == common)
      return;
    findings.add(trace.at(longer[common],
                          "stage " + std::to_string(key.source) + " sends " +
                              std::to_string(ends.sends.size()) + " messages to stage " +
                              std::to_string(key.destination) + " on channel " +
                              std::to_string(key.channel) + ", which receives " +
                              std::to_string(ends.receives.size()) + "; the first without a "
                              "partner is this " + describeBody(program, *longer[common].inst),
                          "both ends must agree on peer, channel and number of messages"));
  }

  const ProgramT &program;
  Trace trace;
  Findings findings;
  std::map<CommunicatorKey, std::map<uint32_t, Sequence>> sequences;
  std::map<MessageKey, Ends> messages;
};

} // namespace

std::vector<Finding> checkCollectives(const ProgramT &program) {
  return Collectives(program).run();
}

} // namespace llmc::planfile
