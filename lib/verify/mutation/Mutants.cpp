// Enumerates the mutants of a plan, fault by fault.
#include "lib/verify/mutation/Mutants.h"

#include "lib/planfile/Trace.h"
#include "lib/verify/mutation/InstructionClasses.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace llmc::verify {

using namespace planfile;

namespace {

class Lister {
public:
  explicit Lister(const ProgramT &program) : program(program), families(program) {}

  std::vector<Mutant> run() {
    for (const auto &family : families.all()) {
      const InstructionT &inst = instructionAt(program, family.front());
      if (const CollectiveT *collective = inst.body.AsCollective())
        collectiveFaults(family, *collective);
      if (inst.body.type == Body::Wait)
        add(Fault::Wait, family, describeBody(program, inst) + " removed");
      if (std::optional<Message> message = messageOf(inst))
        messageFaults(family, inst, *message);
      if (inst.body.AsCollective() || accumulates(family.front()))
        add(Fault::Scale, family, "result of " + describeBody(program, inst) + " doubled");
      removal(family, inst);
      bufferFaults(family);
      scratchFaults(family);
      operandFaults(family, inst);
    }
    flatFaults();
    entryFaults();
    inversions();
    tornGroups();
    poolFaults();
    return std::move(mutants);
  }

private:
  Mutant &add(Fault fault, std::vector<PlanSite> sites, std::string change) {
    Mutant &mutant = mutants.emplace_back();
    mutant.fault = fault;
    mutant.sites = std::move(sites);
    mutant.change = std::move(change);
    return mutant;
  }

  void collectiveFaults(const std::vector<PlanSite> &family, const CollectiveT &collective) {
    std::string what = describeBody(program, instructionAt(program, family.front()));
    add(Fault::Drop, family, what + " dropped");
    groupFaults(family, collective, what);
    bool reduces = collective.kind == CollectiveKind::AllReduce ||
                   collective.kind == CollectiveKind::ReduceScatter;
    if (reduces)
      add(Fault::Kind, family,
          what + (collective.reduce == ReduceKind::Sum ? ": maximum in place of sum"
                                                       : ": sum in place of maximum"));
    if (collective.kind == CollectiveKind::AllReduce)
      add(Fault::Kind, family, what + " made a broadcast").value = 1;
  }

  // Adds groups over another axis, over one axis fewer, of half of the stages, of all stages.
  void groupFaults(const std::vector<PlanSite> &family, const CollectiveT &collective,
                   const std::string &what) {
    auto offer = [&](std::vector<uint32_t> axes, std::vector<std::vector<uint32_t>> members) {
      CollectiveT changed;
      changed.axes = axes;
      changed.members = members.front();
      if (sameGroups(family, collective, axes, members))
        return;
      Mutant &mutant = add(Fault::Group, family,
                           what + " over " + communicatorName(program, changed) + " instead");
      mutant.axes = std::move(axes);
      mutant.members = std::move(members);
    };
    std::vector<std::vector<uint32_t>> all(family.size());
    const std::vector<uint32_t> &axes = collective.axes;
    if (axes.size() > 1) {
      for (size_t i = 0; i < axes.size(); ++i) {
        std::vector<uint32_t> fewer = axes;
        fewer.erase(fewer.begin() + static_cast<long>(i));
        offer(fewer, all);
      }
      return;
    }
    if (!collective.members.empty())
      offer(axes, all);
    else if (axes[0] == program.stage_axis)
      offer(axes, halves(family));
    for (uint32_t axis = 0; axis < program.mesh->axes.size(); ++axis)
      if (axis != axes[0])
        offer({axis}, all);
  }

  // Returns the members of each site's group if the stages are split into two halves.
  std::vector<std::vector<uint32_t>> halves(const std::vector<PlanSite> &family) const {
    uint32_t stages = static_cast<uint32_t>(program.stages.size()), middle = stages / 2;
    std::vector<std::vector<uint32_t>> result;
    for (const PlanSite &site : family) {
      bool low = site.stage < middle;
      result.emplace_back();
      for (uint32_t s = low ? 0 : middle; s < (low ? middle : stages); ++s)
        result.back().push_back(s);
    }
    return result;
  }

  bool sameGroups(const std::vector<PlanSite> &family, const CollectiveT &was,
                  const std::vector<uint32_t> &axes,
                  const std::vector<std::vector<uint32_t>> &members) const {
    for (uint32_t rank = 0; rank < rankCount(*program.mesh); ++rank)
      for (size_t i = 0; i < family.size(); ++i) {
        if (stageOf(program, rank) != family[i].stage)
          continue;
        CollectiveT changed;
        changed.axes = axes;
        changed.members = members[i];
        if (groupOf(*program.mesh, was, rank) != groupOf(*program.mesh, changed, rank))
          return false;
      }
    return true;
  }

  void messageFaults(const std::vector<PlanSite> &family, const InstructionT &inst,
                     const Message &message) {
    std::string what = describeBody(program, inst);
    uint32_t stage = family.front().stage;
    Message turned = message;
    turned.delta = -message.delta;
    if (peerStage(program, stage, turned) != peerStage(program, stage, message))
      add(Fault::Peer, family, what + ": the other neighbour");
    add(Fault::Peer, family, what + ": another channel").value = 1;
    if (!message.sends)
      lateReceive(family, what);
  }

  // Adds a receive moved behind the last instruction of its stream, unless its group ends there.
  void lateReceive(const std::vector<PlanSite> &family, const std::string &what) {
    std::vector<int64_t> behind;
    for (const PlanSite &site : family) {
      const auto &list = program.stages[site.stage]->procedures[site.procedure]->instructions;
      auto last = static_cast<int64_t>(list.size()) - 1, end = site.instruction;
      while (list[last]->stream != list[site.instruction]->stream)
        --last;
      while (end + 1 < static_cast<int64_t>(list.size()) && isGrouped(*list[end + 1]))
        ++end;
      if (last <= end)
        return;
      behind.push_back(last);
    }
    add(Fault::Late, family, what + ": behind all else on its stream").neighbours = behind;
  }

  // Adds groups torn into single messages together with the groups that they meet: one group
  // alone may go one by one if its peer offers all messages at once.
  void tornGroups() {
    Trace trace = buildTrace(program, 1);
    std::map<std::pair<uint32_t, uint32_t>, std::set<std::pair<uint32_t, uint32_t>>> meets;
    for (const Node &node : trace.nodes)
      if (node.partner >= 0) {
        const Node &other = trace.nodes[node.partner];
        meets[{node.stage, trace.entryOf(node).procedure}].insert(
            {other.stage, trace.entryOf(other).procedure});
      }
    std::set<std::set<std::pair<uint32_t, uint32_t>>> seen;
    for (auto [own, procedures] : meets) {
      std::vector<PlanSite> sites = groupedSites(own);
      procedures.insert(own);
      if (sites.empty() || !seen.insert(procedures).second)
        continue;
      for (const auto &other : procedures)
        if (other != own)
          for (const PlanSite &site : groupedSites(other))
            sites.push_back(site);
      add(Fault::Torn, sites,
          "the messages of " + program.stages[own.first]->procedures[own.second]->name +
              ", and those that they meet, one by one");
    }
  }

  std::vector<PlanSite> groupedSites(std::pair<uint32_t, uint32_t> place) const {
    auto [s, p] = place;
    const auto &list = program.stages[s]->procedures[p]->instructions;
    std::vector<PlanSite> sites;
    for (size_t i = 0; i < list.size(); ++i)
      if (isGrouped(*list[i]))
        sites.push_back({s, p, static_cast<int64_t>(i), -1});
    return sites;
  }

  // Adds one row, or all that a pool holds, in the pool of another chunk.
  void poolFaults() {
    for (uint32_t s = 0; s < program.stages.size(); ++s) {
      const StageT &stage = *program.stages[s];
      auto offer = [&](PlanSite site, uint32_t from, const std::string &what) -> Mutant * {
        for (uint32_t to = 0; to < stage.pools.size(); ++to)
          if (stage.pools[to]->chunk != stage.pools[from]->chunk) {
            Mutant &mutant = add(Fault::Pool, {site},
                                 what + " in pool " + std::to_string(to) + ", of chunk " +
                                     std::to_string(stage.pools[to]->chunk));
            mutant.value = to;
            return &mutant;
          }
        return nullptr;
      };
      for (uint32_t e = 0; e < stage.table.size(); ++e) {
        const EntryT &entry = *stage.table[e];
        if (!usesSlot(*stage.procedures[entry.procedure]))
          continue;
        for (uint32_t lane = 0; lane <= entry.more.size(); ++lane)
          if (Mutant *mutant = offer({s, entry.procedure, -1, static_cast<int64_t>(e)},
                                     slotOf(entry, lane).pool(),
                                     "lane " + std::to_string(lane) + " of row " +
                                         std::to_string(e)))
            mutant->other = lane;
      }
      for (uint32_t from = 0; from < stage.pools.size(); ++from)
        if (Mutant *mutant = offer({s, 0, -1, -1}, from, "all of pool " + std::to_string(from)))
          mutant->other = from;
    }
  }

  // Returns whether an instruction adds to an accumulator of floats in place.
  bool accumulates(const PlanSite &site) const {
    const InstructionT &inst = instructionAt(program, site);
    if (inst.body.type != Body::Launch && inst.body.type != Body::Matmul)
      return false;
    std::vector<ByteAccess> reads, writes;
    forEachAccess(inst, 0, [&](const ByteAccess &a) {
      if (a.read)
        reads.push_back(a);
      if (a.write)
        writes.push_back(a);
    });
    if (writes.size() != 1)
      return false;
    const ByteAccess &w = writes[0];
    auto sameBytes = [&](const ByteAccess &r) { return r.begin == w.begin && r.end == w.end; };
    if (std::none_of(reads.begin(), reads.end(), sameBytes))
      return false;
    const auto &states = program.stages[site.stage]->states;
    return std::any_of(states.begin(), states.end(), [&](const auto &state) {
      return state->role == StateRole::Accumulator && state->dtype == DType::F32 &&
             state->buffer->offset <= w.begin &&
             w.end <= state->buffer->offset + state->buffer->size;
    });
  }

  void bufferFaults(const std::vector<PlanSite> &family) {
    const PlanSite &site = family.front();
    // Cast for buffersOf() only; nothing is written through it.
    InstructionT &inst = const_cast<InstructionT &>(instructionAt(program, site));
    std::vector<BufferRefT *> buffers = buffersOf(inst);
    std::vector<bool> written = writtenBuffers(inst);
    std::string what = describeBody(program, inst);
    bool ordered = inst.body.type == Body::Matmul; // a x b is not b x a
    for (uint32_t a = 0; a < buffers.size(); ++a)
      for (uint32_t b = a + 1; b < buffers.size(); ++b) {
        const BufferRefT &x = *buffers[a], &y = *buffers[b];
        bool same = x.offset == y.offset && x.slot_stride == y.slot_stride;
        if (same || x.size != y.size || !(ordered || written[a] || written[b]))
          continue;
        Mutant &mutant = add(Fault::Exchange, family,
                             what + ": buffers " + std::to_string(a) + " and " +
                                 std::to_string(b) + " exchanged");
        mutant.value = a;
        mutant.other = b;
      }
    for (uint32_t b = 0; b < buffers.size(); ++b)
      if (written[b] && buffers[b]->slot_stride != 0 && slotsOf(site, buffers[b]->lane) > 1)
        add(Fault::Overlap, family,
            "what " + what + " writes to buffer " + std::to_string(b) + " is in one place for " +
                "all slots")
            .other = b;
  }

  // Counts the slots of the largest pool that a lane of a procedure runs in.
  uint32_t slotsOf(const PlanSite &site, uint32_t lane) const {
    const StageT &stage = *program.stages[site.stage];
    uint32_t slots = 0;
    for (const auto &entry : stage.table)
      if (entry->procedure == site.procedure)
        slots = std::max(slots, stage.pools[slotOf(*entry, lane).pool()]->slots);
    return slots;
  }

  static std::vector<bool> writtenBuffers(const InstructionT &inst) {
    switch (inst.body.type) {
    case Body::Launch: {
      std::vector<bool> written;
      for (const auto &operand : inst.body.AsLaunch()->operands)
        written.push_back((static_cast<unsigned>(operand->access) & 2) != 0);
      return written;
    }
    case Body::Matmul: // then routes
      return {false, false, true, false};
    case Body::Collective: // then counts of rows
      return {false, true, false, false};
    case Body::Copy:
      return {false, true};
    case Body::Recv:
      return std::vector<bool>(inst.body.AsRecv()->parts.size(), true);
    case Body::Send:
      return std::vector<bool>(inst.body.AsSend()->parts.size(), false);
    default:
      return std::vector<bool>(1, true);
    }
  }

  // Adds the removal of an instruction. Waits and collectives have faults of their own; without a
  // record, waits wait for nothing.
  void removal(const std::vector<PlanSite> &family, const InstructionT &inst) {
    std::string what = describeBody(program, inst) + " removed";
    switch (inst.body.type) {
    case Body::Launch:
      add(Fault::Launch, family, what);
      break;
    case Body::Matmul:
      add(Fault::Product, family, what);
      break;
    case Body::Fill:
      add(Fault::Fill, family, what);
      break;
    case Body::Feed:
    case Body::Copy:
    case Body::Send:
    case Body::Recv:
      add(Fault::Move, family, what);
      break;
    default:
      break;
    }
  }

  // Returns whether a kernel is one commutative operation.
  static bool commutes(const KernelT &kernel) {
    static constexpr std::string_view commuting[] = {"graph.add ", "graph.mul ", "graph.max ",
                                                     "graph.min "};
    return kernel.source.find(';') == std::string::npos &&
           std::any_of(std::begin(commuting), std::end(commuting),
                       [&](std::string_view op) { return kernel.source.starts_with(op); });
  }

  void operandFaults(const std::vector<PlanSite> &family, const InstructionT &inst) {
    const LaunchT *launch = inst.body.AsLaunch();
    if (!launch || commutes(*program.kernels[launch->kernel]))
      return;
    for (uint32_t a = 0; a < launch->operands.size(); ++a)
      for (uint32_t b = a + 1; b < launch->operands.size(); ++b) {
        const OperandT &x = *launch->operands[a], &y = *launch->operands[b];
        bool same = x.buffer->offset == y.buffer->offset &&
                    x.buffer->slot_stride == y.buffer->slot_stride;
        if (same || x.buffer->size != y.buffer->size || x.access != Access::Read ||
            y.access != Access::Read)
          continue;
        Mutant &mutant = add(Fault::Operands, family,
                             describeBody(program, inst) + ": operands " + std::to_string(a) +
                                 " and " + std::to_string(b) + " exchanged");
        mutant.value = a;
        mutant.other = b;
      }
  }

  // Returns whether an operand is scratch: bytes that the launch writes and nothing ever reads.
  bool isScratch(const PlanSite &site, const OperandT &operand) const {
    const StageT &stage = *program.stages[site.stage];
    uint64_t begin = operand.buffer->offset, end = begin + operand.buffer->size;
    auto meets = [&](uint64_t b, uint64_t e) { return b < end && begin < e; };
    if (operand.access != Access::Write || operand.buffer->slot_stride != 0 || begin == end)
      return false;
    for (const auto &state : stage.states)
      if (meets(state->buffer->offset, state->buffer->offset + state->buffer->size))
        return false;
    for (const BufferRefT *buffer : readByHost(stage))
      if (meets(buffer->offset, buffer->offset + buffer->size))
        return false;
    bool read = false;
    uint32_t slots = 0;
    for (const auto &pool : stage.pools)
      slots = std::max(slots, pool->slots);
    for (const auto &procedure : stage.procedures)
      for (const auto &inst : procedure->instructions)
        for (uint32_t slot = 0; slot < slots && !read; ++slot)
          forEachAccess(*inst, slot,
                        [&](const ByteAccess &a) { read |= a.read && meets(a.begin, a.end); });
    return !read;
  }

  void scratchFaults(const std::vector<PlanSite> &family) {
    const InstructionT &inst = instructionAt(program, family.front());
    const LaunchT *launch = inst.body.AsLaunch();
    for (uint32_t s = 0; launch && s < launch->operands.size(); ++s) {
      if (!isScratch(family.front(), *launch->operands[s]))
        continue;
      for (uint32_t other = 0; other < launch->operands.size(); ++other) {
        const OperandT &operand = *launch->operands[other];
        if (other == s || isScratch(family.front(), operand))
          continue;
        Mutant &mutant = add(Fault::Scratch, family,
                             describeBody(program, inst) + ": scratch " + std::to_string(s) +
                                 " and buffer " + std::to_string(other) + " exchanged");
        mutant.value = s;
        mutant.other = other;
      }
    }
  }

  void flatFaults() {
    for (uint32_t s = 0; s < program.stages.size(); ++s) {
      const StageT &stage = *program.stages[s];
      auto offer = [&](uint32_t other, const std::string &what) {
        for (uint32_t less : {0u, 1u}) {
          Mutant &mutant = add(Fault::Flat, {PlanSite{s, 0, -1, -1}},
                               what + (less ? " one less" : " one more"));
          mutant.value = less;
          mutant.other = other;
        }
      };
      auto states = static_cast<uint32_t>(stage.states.size());
      for (uint32_t i = 0; i < states; ++i)
        if (stage.states[i]->flat)
          offer(i, "begin of " + stage.states[i]->name + " in its flat buffer:");
      for (uint32_t g = 0; g < stage.flat_groups.size(); ++g)
        offer(states + g, "length of flat group " + std::to_string(g) + ":");
    }
  }

  // Adds rows of the table in another slot.
  void entryFaults() {
    for (uint32_t s = 0; s < program.stages.size(); ++s) {
      const StageT &stage = *program.stages[s];
      for (uint32_t e = 0; e < stage.table.size(); ++e) {
        const EntryT &entry = *stage.table[e];
        if (!usesSlot(*stage.procedures[entry.procedure]))
          continue;
        for (uint32_t lane = 0; lane <= entry.more.size(); ++lane) {
          SlotRef at = slotOf(entry, lane);
          uint32_t slots = stage.pools[at.pool()]->slots, slot = (at.slot() + 1) % slots;
          if (slots < 2)
            continue;
          PlanSite site{s, entry.procedure, -1, static_cast<int64_t>(e)};
          Mutant &mutant = add(Fault::Exchange, {site},
                               "micro-batch " + std::to_string(at.micro_batch()) + " in slot " +
                                   std::to_string(slot) + " instead of " +
                                   std::to_string(at.slot()));
          mutant.value = slot;
          mutant.other = lane;
        }
      }
    }
  }

  static bool usesSlot(const ProcedureT &procedure) {
    bool slotted = false;
    for (const auto &inst : procedure.instructions)
      forEachAccess(*inst, 0, [&](const ByteAccess &a) { slotted |= a.slotted; });
    return slotted;
  }

  // Adds exchanges of neighbours of one stream with no event between them.
  void inversions() {
    std::map<std::pair<uint32_t, uint32_t>, size_t> byFamilies;
    for (uint32_t s = 0; s < program.stages.size(); ++s)
      for (uint32_t p = 0; p < program.stages[s]->procedures.size(); ++p) {
        const auto &list = program.stages[s]->procedures[p]->instructions;
        std::map<uint32_t, uint32_t> last; // by stream
        for (uint32_t i = 0; i < list.size(); ++i) {
          auto [before, isFirst] = last.try_emplace(list[i]->stream, i);
          uint32_t first = std::exchange(before->second, i);
          if (isFirst || isEvent(*list[first]) || isEvent(*list[i]))
            continue;
          auto key = std::pair(families.of(s, p, first), families.of(s, p, i));
          auto [at, isNew] = byFamilies.try_emplace(key, mutants.size());
          if (isNew)
            add(Fault::Invert, {},
                describeBody(program, *list[first]) + " after instruction " + std::to_string(i) +
                    ", " + describeBody(program, *list[i]));
          mutants[at->second].sites.push_back({s, p, static_cast<int64_t>(first), -1});
          mutants[at->second].neighbours.push_back(i);
        }
      }
  }

  static bool isEvent(const InstructionT &inst) {
    return inst.body.type == Body::Record || inst.body.type == Body::Wait;
  }

  const ProgramT &program;
  InstructionClasses families;
  std::vector<Mutant> mutants;
};

} // namespace

std::string_view toString(Fault fault) {
  static constexpr std::string_view names[kFaults] = {
      "drop", "group", "kind", "wait", "scale", "peer", "exchange", "overlap", "invert",
      "torn", "late", "pool", "flat", "scratch", "launch", "product", "fill", "move", "operands"};
  return names[static_cast<unsigned>(fault)];
}

std::vector<Mutant> listMutants(const ProgramT &program) { return Lister(program).run(); }

} // namespace llmc::verify
