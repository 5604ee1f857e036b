// Why a collective or a message is there.
#include "lib/report/Explain.h"

#include "lib/planfile/CheckWalk.h"

#include <algorithm>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
using support::text;
namespace {

// What partition did, in words: how the tensor lies, how it is needed, what bridges that.
std::string partitionOf(const Book &book, const Traffic &t) {
  const OriginT &origin = *book.program.origins[t.origin];
  if (t.isSend)
    return text("split-stages cut the step between stages ", std::min(t.stage, t.toStage), " and ",
                std::max(t.stage, t.toStage), "; what one side makes and the other needs crosses in one message");
  if (origin.tensors.empty() || !origin.tensors[0]->layout || !origin.tensors[0]->needed) {
    if (origin.op == "gradients")
      return "the rows of a batch are cut, so each rank's gradient holds the terms of its own rows; "
             "bucket-reductions put neighbours in memory into one call";
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
  return text(made, ", who reads it needs it ", needed, ": insert-reshards put a reshard between, localize made it ",
              t.kind);
}

// Accumulators inside the bytes of a bucket.
json bucketTensors(const Book &book, const Traffic &t, const CollectiveT &collective) {
  json list = json::array();
  for (const auto &state : book.program.stages[t.stage]->states) {
    const BufferRefT &at = *state->buffer, &all = *collective.src;
    if (at.offset < all.offset || at.offset + at.size > all.offset + all.size)
      continue;
    TensorInfoT tensor;
    tensor.dtype = state->dtype;
    tensor.shape = state->global_shape;
    tensor.layout = std::make_unique<LayoutT>();
    for (const auto &dim : state->dims)
      tensor.layout->dims.push_back(std::make_unique<DimShardingT>(*dim));
    json j = book.describe(tensor);
    j["name"] = state->view ? book.program.sources[state->view->source]->name : state->name;
    j["local_shape"] = state->local_shape;
    j["bytes"] = elementsOf(state->local_shape) * byteSize(state->dtype);
    list.push_back(std::move(j));
  }
  return list;
}

// Names of what wrote the bytes before the instruction, or reads them behind it.
json neighbours(const Book &book, const Site &site, bool before) {
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

// On a stream of its own: which instructions of the compute stream may run meanwhile.
json overlapOf(const Book &book, const Site &site) {
  const StageT &stage = *book.program.stages[site.stage];
  const auto &list = stage.procedures[site.procedure]->instructions;
  unsigned stream = list[site.index]->stream;
  json j = {{"stream", stream}, {"procedure", stage.procedures[site.procedure]->name}};
  if (stream == 0) {
    j["text"] = "on the compute stream: nothing of this rank overlaps with it, readers come behind it";
    return j;
  }
  // It starts when the event before it in its stream is recorded.
  int64_t start = 0;
  for (uint32_t i = site.index; i-- > 0;)
    if (list[i]->stream == stream && list[i]->body.type == Body::Wait) {
      for (uint32_t r = 0; r < list.size(); ++r)
        if (list[r]->stream != stream && list[r]->body.type == Body::Record &&
            list[r]->body.AsRecord()->event == list[i]->body.AsWait()->event)
          start = r;
      break;
    }
  uint64_t launches = 0, matmuls = 0;
  for (size_t i = size_t(start); i < list.size(); ++i)
    if (list[i]->stream == 0) {
      launches += list[i]->body.type == Body::Launch;
      matmuls += list[i]->body.type == Body::Matmul;
    }
  j["launches"] = launches;
  j["matmuls"] = matmuls;
  std::string waiting;
  for (uint32_t i = site.index + 1; i < list.size() && waiting.empty(); ++i)
    if (list[i]->stream == stream && list[i]->body.type == Body::Record)
      for (const auto &procedure : stage.procedures)
        for (const auto &inst : procedure->instructions)
          if (inst->stream == 0 && inst->body.type == Body::Wait && waiting.empty() &&
              inst->body.AsWait()->event == list[i]->body.AsRecord()->event)
            waiting = procedure->name;
  const std::string &name = stage.procedures[site.procedure]->name;
  std::string beside = launches + matmuls ? text(launches, " launches and ", matmuls, " products of ",
                                                 name, " stand behind its start")
                                          : text("it starts when ", name,
                                                 " has computed, what the table brings next runs meanwhile");
  j["text"] = text("on stream ", stream, " beside the compute stream: ", beside,
                   waiting.empty() ? "" : "; compute waits for it in " + waiting);
  return j;
}

// The groups that run it, of the first stages' ranks.
json membersOf(const Book &book, const Traffic &t, const InstructionT &inst) {
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
    else if (const SendT *send = inst.body.AsSend())
      group.push_back(peerOf(*program.mesh, rank, send->axis, send->delta, send->wrap));
    for (uint32_t member : group)
      if (member < seen.size())
        seen[member] = true;
    size = group.size();
    if (++count <= 4)
      groups.push_back(group);
  }
  return {{"ranks", size}, {"groups", count}, {"first_groups", groups}};
}

// The node at which the tactic began: of folded layers that of this layer.
std::string seedOf(const Book &book, const OriginT &origin, const std::optional<Named> &cause) {
  if (!cause || cause->layer < 0)
    return origin.seed;
  for (const Named &seed : book.opsOf(origin.seed))
    for (size_t i = 0; i < seed.op->layers.size(); ++i)
      if (seed.op->layers[i] == cause->layer)
        return seed.op->names[i];
  return origin.seed;
}

} // namespace

json explainTraffic(const Book &book, const Traffic &t) {
  const ProgramT &program = book.program;
  const InstructionT &inst = instructionAt(program, t.sites.front());
  const OriginT &origin = *program.origins[t.origin];
  std::optional<Named> cause = t.isSend ? std::nullopt : book.causeOf(t);
  json tensors = json::array();
  for (const auto &tensor : origin.tensors) {
    tensors.push_back(book.describe(*tensor));
    if (!t.isSend)
      tensors.back()["name"] = titleOf(origin);
  }
  if (const CollectiveT *collective = inst.body.AsCollective(); collective && tensors.empty())
    tensors = bucketTensors(book, t, *collective);
  return {{"what", "collective"},
          {"why",
           {{"node", titleOf(origin)},
            {"nodes", origin.nodes},
            {"is_parameter", book.sourceOf(titleOf(origin)) != nullptr},
            {"is_node", !book.opsOf(titleOf(origin)).empty()},
            {"op", cause ? json(cause->op->op) : json(origin.op)},
            {"tactic", origin.tactic},
            {"rule", origin.rule},
            {"seed", seedOf(book, origin, cause)},
            {"partition", partitionOf(book, t)},
            {"moved", origin.moved}}},
          {"tensors", tensors},
          {"made_by", neighbours(book, t.sites.front(), true)},
          {"read_by", neighbours(book, t.sites.front(), false)},
          {"members", membersOf(book, t, inst)},
          {"overlap", overlapOf(book, t.sites.front())},
          {"alternatives", alternativesTo(book, t)}};
}

} // namespace llmc::report
