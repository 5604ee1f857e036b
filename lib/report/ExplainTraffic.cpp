// Explains why a collective or a message is there.
#include "lib/support/Counted.h"
#include "lib/report/Explain.h"

#include "lib/planfile/Trace.h"

#include <algorithm>

#include <map>

#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
using support::counted;
using support::text;
namespace {

// Returns whether a collective moves a flat tensor of ZeRO, and not a sum of single numbers.
bool isFlat(const Traffic &t, const OriginT &origin) {
  return origin.tactic == "state" && t.kind != "all_reduce" && !origin.tensors.empty();
}

// Describes what partition did: the layout of the tensor, the layout that is needed, and what
// converts one to the other.
std::string partitionOf(const PlanIndex &book, const Traffic &t) {
  const OriginT &origin = *book.program.origins[t.origin];
  if (t.isSend)
    return text("split-stages cut the step between stages ", std::min(t.stage, t.toStage), " and ",
                std::max(t.stage, t.toStage), "; what one side makes and the other needs crosses in one message");
  if (t.kind == "shift")
    return text("the tokens of a row are cut over ", book.axesText(t.axes),
                "; localize wrote attention as a block for each rank, and what belongs to the keys of the next "
                "block travels while one is computed");
  if (isFlat(t, origin))
    return text("shard-state shares out the states of these tensors over ", book.axesText(t.axes),
                "; flatten-states laid them side by side, ", groupDigits(elementsOf(origin.tensors[0]->shape)),
                " elements with padding, and put the ", t.kind, " there");
  if (origin.tensors.empty() || !origin.tensors[0]->layout || !origin.tensors[0]->needed) {
    if (origin.op == "gradients")
      return "the rows of a batch are cut, so each rank's gradient holds the terms of its own rows; "
             "bucket-reductions put neighbours in memory into one call";
    if (origin.tactic == "expert")
      return text("shard-expert shares out the experts of a layer over ", book.axesText(t.axes),
                  "; localize sorts rows by the rank of their expert, and as many travel as there are: the bytes are "
                  "those of all rows of the rank, its own experts' too");
    return "split-stages: each stage holds its own terms of this sum";
  }
  const TensorInfoT &tensor = *origin.tensors[0];
  std::string made, needed = "as a whole on each rank";
  std::vector<uint32_t> sums;
  for (uint32_t axis : tensor.layout->unreduced)
    if (std::find(t.axes.begin(), t.axes.end(), axis) != t.axes.end())
      sums.push_back(axis);
  bool cut = false;
  for (const auto &dim : tensor.needed->dims)
    cut |= !dim->axes.empty();
  if (cut)
    needed = "as " + book.layoutText(tensor.shape, tensor.needed.get());
  if (!sums.empty())
    made = text("each rank has one term of a ",
                tensor.layout->reduce == ReduceKind::Max ? "maximum" : "sum", " over ",
                book.axesText(sums));
  else
    made = text("it is made as ", book.layoutText(tensor.shape, tensor.layout.get()));
  for (uint32_t axis : t.axes)
    if (axis == book.program.stage_axis)
      return text(made, "; split-stages put the ", t.kind, " before it is used");
  return text(made, ", its readers need it ", needed, ": insert-reshards put a reshard between, localize made it ",
              t.kind);
}

// Describes the part of a state that a rank computes with.
json describeState(const PlanIndex &book, const StateShardT &state) {
  TensorInfoT tensor;
  tensor.dtype = state.dtype;
  tensor.shape = state.global_shape;
  tensor.layout = std::make_unique<LayoutT>();
  for (const auto &dim : state.dims)
    tensor.layout->dims.push_back(std::make_unique<DimShardingT>(*dim));
  json j = book.describe(tensor);
  j["name"] = state.view ? book.program.sources[state.view->source]->name : state.name;
  j["local_shape"] = state.local_shape;
  j["bytes"] = elementsOf(state.local_shape) * byteSize(state.dtype);
  return j;
}

// Lists the accumulators inside the bytes of a bucket.
json bucketTensors(const PlanIndex &book, const Traffic &t, const CollectiveT &collective) {
  json list = json::array();
  for (const auto &state : book.program.stages[t.stage]->states) {
    const BufferRefT &at = *state->buffer, &all = *collective.src;
    if (at.offset < all.offset || at.offset + at.size > all.offset + all.size)
      continue;
    list.push_back(describeState(book, *state));
  }
  return list;
}

// Lists the tensors that lie side by side in a flat tensor, as the origin names them: weights that
// are gathered, gradients that are scattered.
json flatTensors(const PlanIndex &book, const Traffic &t, const OriginT &origin) {
  StateRole role = t.kind == "all_gather" ? StateRole::Parameter : StateRole::Accumulator;
  json list = json::array();
  for (const std::string &name : origin.nodes)
    for (const StateShardT *state : book.statesOf(t.stage, name))
      if (state->role == role)
        list.push_back(describeState(book, *state));
  return list;
}

// Names what wrote the bytes before the instruction, or what reads them after it.
json neighbours(const PlanIndex &book, const Site &site, bool before) {
  const ProgramT &program = book.program;
  const auto &list = program.stages[site.stage]->procedures[site.procedure]->instructions;
  std::vector<ByteAccess> bytes;
  forEachAccess(*list[site.index], 0, [&](const ByteAccess &a) {
    if (before ? a.read : a.write)
      bytes.push_back(a);
  });
  json names = json::array();
  auto touches = [&](const InstructionT &inst, bool read) {
    bool any = false;
    forEachAccess(inst, 0, [&](const ByteAccess &a) {
      for (const ByteAccess &b : bytes)
        any |= (read ? a.read : a.write) && a.begin < b.end && b.begin < a.end;
    });
    return any;
  };
  auto add = [&](const InstructionT &inst) {
    const OriginT &origin = *program.origins[inst.origin];
    std::string name = origin.nodes.empty() ? origin.op : origin.nodes.front();
    if (std::find(names.begin(), names.end(), json(name)) == names.end() && names.size() < 8)
      names.push_back(name);
  };
  if (before) {
    for (uint32_t i = site.index; i-- > 0;)
      if (touches(*list[i], false)) {
        add(*list[i]);
        break;
      }
  } else {
    for (uint32_t i = site.index + 1; i < list.size(); ++i) {
      if (touches(*list[i], true))
        add(*list[i]);
      if (touches(*list[i], false))
        break;
    }
  }
  return names;
}

using Instructions = std::vector<std::unique_ptr<InstructionT>>;

// Returns the record of another stream that the collective's stream waits for before it: the
// latest one issued, for an event may be reused. -1: work before the procedure.
int64_t startOf(const Instructions &list, uint32_t site) {
  for (int64_t i = int64_t(site) - 1; i >= 0; --i)
    if (list[i]->stream == list[site]->stream && list[i]->body.type == Body::Wait)
      for (int64_t r = i - 1; r >= 0; --r)
        if (list[r]->stream != list[site]->stream && list[r]->body.type == Body::Record &&
            list[r]->body.AsRecord()->event == list[i]->body.AsWait()->event)
          return r;
  return -1;
}

// Returns the procedure, and the index in it, where the compute stream waits for the collective
// or for what follows it on its stream.
std::pair<const ProcedureT *, size_t> waitFor(const StageT &stage, const ProcedureT &procedure,
                                              uint32_t site) {
  const Instructions &list = procedure.instructions;
  std::map<uint32_t, bool> behind; // events: the latest record follows the collective
  for (size_t i = site + 1; i < list.size(); ++i) {
    if (const RecordT *record = list[i]->body.AsRecord())
      behind[record->event] = list[i]->stream == list[site]->stream;
    const WaitT *wait = list[i]->body.AsWait();
    if (wait && list[i]->stream == 0 && behind.count(wait->event) && behind[wait->event])
      return {&procedure, i};
  }
  // Looks for an event that another procedure waits for before it records it anew.
  for (const auto &other : stage.procedures) {
    std::set<uint32_t> own;
    for (size_t i = 0; other.get() != &procedure && i < other->instructions.size(); ++i) {
      const InstructionT &inst = *other->instructions[i];
      if (const RecordT *record = inst.body.AsRecord())
        own.insert(record->event);
      const WaitT *wait = inst.body.AsWait();
      if (wait && inst.stream == 0 && !own.count(wait->event) && behind.count(wait->event) &&
          behind[wait->event])
        return {other.get(), i};
    }
  }
  return {nullptr, 0};
}

// Returns the name of the procedure whose computation a message or collective waits for: its own,
// or the one that records what an exchange waits for.
const std::string &computedBy(const StageT &stage, const ProcedureT &procedure, uint32_t site) {
  const Instructions &list = procedure.instructions;
  if (procedure.kind == ProcedureKind::Exchange)
    for (size_t i = 0; i < site; ++i)
      if (const WaitT *wait = list[i]->body.AsWait();
          wait && wait->lane == laneOf(*list[site]))
        for (const auto &other : stage.procedures)
          for (const auto &inst : other->instructions)
            if (const RecordT *record = inst->body.AsRecord();
                record && inst->stream == 0 && record->event == wait->event)
              return other->name;
  return procedure.name;
}

// Counts the launches and products of the compute stream that may overlap with a collective on a
// stream of its own.
json overlapOf(const PlanIndex &book, const Site &site) {
  const StageT &stage = *book.program.stages[site.stage];
  const ProcedureT &procedure = *stage.procedures[site.procedure];
  const auto &list = procedure.instructions;
  unsigned stream = list[site.index]->stream;
  json j = {{"stream", stream}, {"procedure", procedure.name}};
  if (stream == 0) {
    j["text"] = "on the compute stream: nothing of this rank overlaps with it, readers come behind it";
    return j;
  }
  auto [waiting, place] = waitFor(stage, procedure, site.index);
  size_t end = waiting == &procedure ? place : list.size();
  uint64_t launches = 0, matmuls = 0;
  for (size_t i = size_t(startOf(list, site.index) + 1); i < end; ++i)
    if (list[i]->stream == 0) {
      launches += list[i]->body.type == Body::Launch;
      matmuls += list[i]->body.type == Body::Matmul;
    }
  j["launches"] = launches;
  j["matmuls"] = matmuls;
  std::string beside;
  if (launches + matmuls)
    beside = text(counted(launches, "launch"), " and ", counted(matmuls, "product"), " of ",
                  procedure.name, launches + matmuls == 1 ? " stands" : " stand", " behind its start");
  else if (waiting == &procedure)
    beside = "its readers come right behind it, nothing of this rank runs meanwhile";
  else
    beside = text("it starts when ", computedBy(stage, procedure, site.index),
                  " has computed, what the table brings next runs meanwhile");
  j["text"] = text("on stream ", stream, " beside the compute stream: ", beside,
                   waiting ? "; compute waits for it in " + waiting->name : "");
  return j;
}

// Counts the groups among the ranks of its stage, and lists the first four.
json membersOf(const PlanIndex &book, const Traffic &t, const InstructionT &inst) {
  const ProgramT &program = book.program;
  json groups = json::array();
  uint64_t size = 0, count = 0;
  std::vector<bool> seen(rankCount(*program.mesh), false);
  for (uint32_t rank = 0; rank < seen.size(); ++rank) {
    if (stageOf(program, rank) != t.stage || seen[rank])
      continue;
    std::vector<uint32_t> group = {rank};
    if (const CollectiveT *collective = inst.body.AsCollective())
      group = groupOf(*program.mesh, *collective, rank);
    else if (std::optional<Message> message = messageOf(inst); message && message->axis != program.stage_axis) {
      CollectiveT ring; // of which each rank sends to one and receives from another
      ring.axes = {message->axis};
      group = groupOf(*program.mesh, ring, rank);
    } else if (message)
      group.push_back(peerOf(*program.mesh, rank, *message));
    for (uint32_t member : group)
      if (member < seen.size())
        seen[member] = true;
    size = group.size();
    if (++count <= 4)
      groups.push_back(group);
  }
  return {{"ranks", size}, {"groups", count}, {"first_groups", groups}};
}

// Returns the node at which the tactic began; of folded layers that of this layer.
std::string seedOf(const PlanIndex &book, const OriginT &origin,
                   const std::optional<NamedOp> &cause) {
  if (!cause || cause->layer < 0)
    return origin.seed;
  for (const NamedOp &seed : book.opsOf(origin.seed))
    for (size_t i = 0; i < seed.op->layers.size(); ++i)
      if (seed.op->layers[i] == cause->layer)
        return seed.op->names[i];
  return origin.seed;
}

} // namespace

json explainTraffic(const PlanIndex &book, const Traffic &t) {
  const ProgramT &program = book.program;
  const InstructionT &inst = instructionAt(program, t.sites.front());
  const OriginT &origin = *program.origins[t.origin];
  std::optional<NamedOp> cause = t.isSend ? std::nullopt : book.opRequiring(t);
  json tensors = json::array();
  if (isFlat(t, origin))
    tensors = flatTensors(book, t, origin);
  for (const auto &tensor : origin.tensors) {
    if (isFlat(t, origin))
      break;
    tensors.push_back(book.describe(*tensor));
    if (!t.isSend)
      tensors.back()["name"] = originTitle(origin);
  }
  if (const CollectiveT *collective = inst.body.AsCollective(); collective && tensors.empty())
    tensors = bucketTensors(book, t, *collective);
  // A bucket of gradients in another type than that of their sums lies beside them.
  if (tensors.empty() && origin.op == "gradients")
    tensors = flatTensors(book, t, origin);
  return {{"what", "collective"},
          {"why",
           {{"node", originTitle(origin)},
            {"nodes", origin.nodes},
            {"is_parameter", book.sourceOf(originTitle(origin)) != nullptr},
            {"is_node", !book.opsOf(originTitle(origin)).empty()},
            {"op", cause ? json(cause->op->op) : json(origin.op)},
            {"tactic", origin.tactic},
            {"rule", origin.rule},
            {"seed", seedOf(book, origin, cause)},
            {"partition", partitionOf(book, t)},
            {"moved", origin.moved},
             {"recomputed", origin.recomputed}}},
          {"tensors", tensors},
          {"made_by", neighbours(book, t.sites.front(), true)},
          {"read_by", neighbours(book, t.sites.front(), false)},
          {"members", membersOf(book, t, inst)},
          {"overlap", overlapOf(book, t.sites.front())},
          {"alternatives", alternativesTo(book, t)}};
}

} // namespace llmc::report
