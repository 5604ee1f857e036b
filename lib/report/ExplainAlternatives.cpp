// Lists what could replace a collective or message, with its cost.
#include "lib/support/Counted.h"
#include "lib/report/Experts.h"
#include "lib/report/Explain.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/SharedStates.h"

#include <algorithm>
#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
using support::counted;
using support::text;
namespace {

// Returns the node of `op` in this layer.
std::string nameOf(const OpInfoT &op, int64_t layer) {
  for (size_t i = 0; i < op.names.size(); ++i)
    if (op.layers.empty() || int64_t(op.layers[i]) == layer)
      return op.names[i];
  return "";
}

// Proposes to keep the tensors that the tactic's seed cut whole over the axis; its cost is what a
// rank would then hold more of each state of these parameters.
json keepWhole(const PlanIndex &book, const Traffic &t, const NamedOp &cause,
               const std::vector<uint32_t> &axes) {
  std::string seed;
  for (const auto &cut : cause.op->cuts)
    if (cut->axis == axes.front())
      seed = cut->seed;
  std::set<std::string> parameters;
  for (const auto &op : book.program.ops)
    for (const auto &cut : op->cuts)
      for (const auto &operand : op->operands)
        if (cut->axis == axes.front() && cut->seed == seed &&
            book.isCutOver(operand->needed ? operand->needed.get() : operand->layout.get(), axes))
          if (std::string name = PlanIndex::nameIn(*operand, cause.layer); book.sourceOf(name))
            parameters.insert(book.sourceOf(name)->name);
  uint64_t more = 0, weights = 0;
  for (const std::string &name : parameters)
    for (const StateShardT *state : book.statesOf(t.stage, name)) {
      bool cut = false;
      for (const auto &dim : state->dims)
        cut |= std::find(dim->axes.begin(), dim->axes.end(), axes.front()) != dim->axes.end();
      uint64_t bytes = elementsOf(state->local_shape) * byteSize(state->dtype);
      uint64_t extra = cut ? bytes * (book.sizeOf(axes) - 1) : 0;
      more += extra;
      weights += state->role == StateRole::Parameter ? extra : 0;
    }
  if (parameters.empty())
    return nullptr;
  return {{"name", "keep whole"},
          {"parameters", parameters},
          {"memory_bytes", more},
          {"text", text("keep ", parameters.size() == 1 ? "the parameter" : "the parameters",
                        " that seeded this cut whole over ", book.axesText(axes),
                        ": no such call, but ", groupDigits(more), " bytes more a rank (",
                        groupDigits(weights),
                        " of them weights, the rest gradients and optimizer state), and every "
                        "rank computes all of it")}};
}

// Proposes to gather the cut operand before the op instead of reducing its result.
json gatherBefore(const PlanIndex &book, const Traffic &t, const NamedOp &cause,
                  const std::vector<uint32_t> &axes) {
  for (const auto &operand : cause.op->operands) {
    std::string name = PlanIndex::nameIn(*operand, cause.layer);
    if (book.sourceOf(name) || !operand->layout || !book.isCutOver(operand->layout.get(), axes))
      continue;
    uint64_t bytes = book.localBytes(*operand) * book.sizeOf(axes);
    std::string node = nameOf(*cause.op, cause.layer);
    return {{"name", "gather before"},
            {"bytes", bytes},
            {"step_bytes", bytes * t.perStep},
            {"text", text("all_gather ", name.empty() || name == node ? "its cut operand" : name, " before ",
                          node, ": ", groupDigits(bytes),
                          " bytes a call where this moves ", groupDigits(t.bytes),
                          "; every rank then needs all of the other operand and computes all")}};
  }
  return nullptr;
}

// Proposes to leave the sequence whole between products.
json wholeSequence(const PlanIndex &book, const Traffic &t, const std::vector<uint32_t> &axes) {
  if (t.phase == planfile::Phase::Update)
    return {{"name", "whole sequence"},
            {"text", text("--sequence-parallel off: each rank then has the gradients of all tokens and no "
                          "such sum, but also all tokens of norms and residuals, ", book.sizeOf(axes),
                          " times as much")}};
  return {{"name", "whole sequence"},
          {"bytes", t.bytes},
          {"text", text("an all_reduce behind each row cut in place of a reduce_scatter there and an "
                        "all_gather before the next product (--sequence-parallel off): as much on the wire "
                        "forward, since an all_reduce of so many bytes sends what both of them send, ",
                        book.program.mode == Mode::Infer ? "" : "none to gather again in the backward, ",
                        "but each rank has all tokens of norms and residuals, ", book.sizeOf(axes), " times as much")}};
}

json tensorAlternatives(const PlanIndex &book, const Traffic &t) {
  json list = json::array();
  std::optional<NamedOp> cause = book.opRequiring(t);
  std::vector<uint32_t> axes = book.firstNamed(t.axes);
  if (cause)
    for (json other : {keepWhole(book, t, *cause, axes), gatherBefore(book, t, *cause, axes)})
      if (!other.is_null())
        list.push_back(std::move(other));
  const OriginT &origin = *book.program.origins[t.origin];
  if (origin.recomputed)
    list.push_back(
        {{"name", "keep its result"},
         {"text", text("--recompute none or selective: the forward keeps what it gives, and no such call in the "
                       "backward, ", groupDigits(t.bytes * t.perStep), " bytes a step less")}});
  bool large = !origin.tensors.empty() && origin.tensors[0]->shape.size() > 1;
  if (t.kind == "all_reduce" && large)
    list.push_back(
        {{"name", "reduce_scatter and all_gather"},
         {"bytes", t.bytes},
         {"text", text("a reduce_scatter here and an all_gather before the next product (sequence "
                       "parallelism): the same bytes, what stands between is cut to 1/",
                       book.sizeOf(axes), ": --sequence-parallel on, where ", book.sizeOf(axes),
                       " divides the tokens of a row")}});
  if (t.kind == "reduce_scatter")
    list.push_back(wholeSequence(book, t, axes));
  return list;
}

// Proposes the other stages of ZeRO: what a rank of this stage of the model would then keep of all
// states, and move a step.
json stageAlternatives(const PlanIndex &book, const Traffic &t) {
  const StageT &stage = *book.program.stages[t.stage];
  StateBytes bytes = stateBytesOf(book.program, stage);
  // Other axes of a sum, as those of tensor parallelism, share nothing out.
  uint64_t ranks = sizeOf(*book.program.mesh, AxisRole::Data) * sizeOf(*book.program.mesh, AxisRole::Context);
  uint64_t microBatches = book.program.micro_batches;
  int now = zeroStage(stage);
  static const char *const how[] = {"gradients summed once a step (which sends as much as a scatter and a gather)",
                                    "states of the optimizer shared out",
                                    "gradients scattered in each micro-batch, too",
                                    "weights gathered in each forward and backward, too"};
  json list = json::array();
  for (int zero = 0; zero <= 3; ++zero) {
    // Without states of the optimizer stage 1 is stage 0.
    if (zero == now || (zero == 1 && bytes.optimizer == 0))
      continue;
    int64_t more = static_cast<int64_t>(bytes.kept(zero, ranks)) - static_cast<int64_t>(bytes.kept(now, ranks));
    list.push_back({{"name", text("zero ", zero)},
                    {"memory_bytes", more},
                    {"step_bytes", bytes.moved(zero, microBatches)},
                    {"text", text("--zero ", zero, ", ", how[zero], ": a rank keeps ",
                                  groupDigits(bytes.kept(zero, ranks)), " bytes of states and sums of gradients in place of ",
                                  groupDigits(bytes.kept(now, ranks)), ", and moves ",
                                  groupDigits(bytes.moved(zero, microBatches)), " a step in place of ",
                                  groupDigits(bytes.moved(now, microBatches)))}});
  }
  return list;
}

// Proposes to sum gradients as soon as there are some.
json inEachMicroBatch(const PlanIndex &book, const Traffic &t) {
  uint64_t count = book.program.micro_batches, moved = t.bytes * count;
  return {{"name", "in each micro-batch"},
          {"step_bytes", moved},
          {"text", text("sum after each of ", counted(count, "micro-batch"), ": ", groupDigits(moved),
                        " bytes a step where this moves ", groupDigits(t.bytes * t.perStep))}};
}

json dataAlternatives(const PlanIndex &book, const Traffic &t) {
  json list = json::array();
  if (book.program.origins[t.origin]->op != "gradients")
    return list;
  list.push_back(inEachMicroBatch(book, t));
  for (json &other : stageAlternatives(book, t))
    list.push_back(std::move(other));
  list.push_back({{"name", "fewer replicas"},
                  {"text", "a mesh with dp 1: no sum, but one rank a stage for all rows"}});
  return list;
}

// Proposes other ways to share out, or not to share out, the tokens of a row.
json contextAlternatives(const PlanIndex &book, const Traffic &t) {
  if (book.program.origins[t.origin]->op == "gradients")
    return dataAlternatives(book, t);
  uint64_t ranks = sizeOf(*book.program.mesh, AxisRole::Context);
  json list = json::array();
  list.push_back({{"name", "cp 1"},
                  {"text", text("--cp 1: no such call, but a rank keeps the activations of all tokens of a row, ", ranks,
                                " times as much")}});
  if (t.kind == "all_to_all")
    list.push_back({{"name", "ring"},
                    {"text", "keys and values travel from rank to rank while attention works on those that are there "
                             "(--cp-kind ring)"}});
  if (t.kind == "shift")
    list.push_back({{"name", "heads"},
                    {"text", "each rank gets all tokens of its heads by an exchange before attention, and gives them "
                             "back behind it (--cp-kind heads), if there are as many heads"}});
  return list;
}

json sendAlternatives(const PlanIndex &book, const Traffic &t) {
  json list = json::array();
  const OriginT &origin = *book.program.origins[t.origin];
  std::vector<uint32_t> whole; // axes along which all ranks send the same bytes
  for (uint32_t axis = 0; axis < book.program.mesh->axes.size(); ++axis) {
    bool cut = origin.tensors.empty() || axis == book.program.stage_axis || book.axisSize(axis) == 1;
    for (const auto &tensor : origin.tensors)
      cut |= !tensor->layout || book.isCutOver(tensor->layout.get(), {axis});
    if (!cut)
      whole.push_back(axis);
  }
  for (const std::string &name : book.namesOf(whole)) {
    uint64_t ranks = book.sizeOf(axesNamed(*book.program.mesh, name));
    list.push_back({{"name", "send parts"},
                    {"bytes", t.bytes / ranks},
                    {"text", text("the ", ranks, " ranks along ", name,
                                  " send the same bytes; each could send 1/", ranks, " (",
                                  groupDigits(t.bytes / ranks),
                                  " bytes) and the receivers all_gather: not built")}});
  }
  json schedules = explainSchedule(book)["alternatives"];
  for (json &other : schedules)
    if (other["possible"].get<bool>())
      list.push_back({{"name", "schedule " + other["schedule"].get<std::string>()},
                      {"text", other["flags"].get<std::string>() + ": " + other["text"].get<std::string>()}});
  list.push_back({{"name", "fewer stages"},
                  {"text", "a mesh with a smaller pp has fewer stage boundaries; each rank then holds more layers"}});
  return list;
}

} // namespace

json alternativesTo(const PlanIndex &book, const Traffic &t) {
  const OriginT &origin = *book.program.origins[t.origin];
  if (t.isSend)
    return sendAlternatives(book, t);
  json list = json::array();
  if (t.bytes <= 64) {
    list.push_back({{"name", "none"},
                    {"text", "none: the step needs this number on every rank, and it is as small as can be"}});
    return list;
  }
  if (origin.tactic == "tensor") {
    list = tensorAlternatives(book, t);
  } else if (origin.tactic == "sequence") {
    if (t.phase == planfile::Phase::Update)
      list.push_back(inEachMicroBatch(book, t));
    list.push_back(wholeSequence(book, t, book.firstNamed(t.axes)));
  } else if (origin.tactic == "context")
    list = contextAlternatives(book, t);
  else if (origin.tactic == "data")
    list = dataAlternatives(book, t);
  else if (origin.tactic == "expert")
    list = expertAlternatives(book, t);
  else if (origin.tactic == "state")
    list = stageAlternatives(book, t);
  else
    list.push_back({{"name", "untie"},
                    {"text", "two parameters in place of one that several stages hold (--tie off, where the "
                             "file has both): no such sum, but another model"}});
  return list;
}

} // namespace llmc::report
