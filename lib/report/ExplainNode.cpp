// Explains how a node or a parameter of the source is sharded on the mesh, and which instructions
// run it.
#include "lib/report/Explain.h"

#include "lib/planfile/AxisNames.h"
#include "lib/report/Memory.h"

#include <algorithm>
#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
namespace {

bool has(const std::vector<std::string> &list, const std::string &name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Names the operand through which a cut reached the op: one that is cut so where it is made.
std::string wayOf(const PlanIndex &book, const NamedOp &named, const std::vector<uint32_t> &axes) {
  for (size_t i = 0; i < named.op->operands.size(); ++i) {
    const TensorInfoT &operand = *named.op->operands[i];
    if (!book.isCutOver(operand.layout.get(), axes))
      continue;
    std::string name = PlanIndex::nameIn(operand, named.layer);
    return support::text("operand ", i, name.empty() ? "" : " (" + name + ")");
  }
  return "";
}

json cutsOf(const PlanIndex &book, const NamedOp &named) {
  json cuts = json::array();
  for (const PlanIndex::Cut &found : book.cutsOf(*named.op)) {
    const AxisCutT *cut = found.why;
    // Finds the first op of the node at which the tactic began.
    std::vector<NamedOp> seeds = book.opsOf(cut->seed);
    bool here = !seeds.empty() && seeds.front().op == named.op;
    std::string seed = cut->seed;
    for (const NamedOp &other : seeds)
      for (size_t i = 0; named.layer >= 0 && i < other.op->layers.size(); ++i)
        if (other.op->layers[i] == named.layer && seed == cut->seed)
          seed = other.op->names[i];
    cuts.push_back({{"axis", found.name},
                    {"tactic", cut->tactic},
                    {"rule", cut->rule},
                    {"seed", seed},
                    {"seeded_here", here},
                    {"came_by", here ? "" : wayOf(book, named, found.axes)}});
  }
  return cuts;
}

json opOf(const PlanIndex &book, const NamedOp &named) {
  json operands = json::array(), results = json::array();
  for (const auto &operand : named.op->operands)
    operands.push_back(book.describe(*operand, named.layer));
  for (const auto &result : named.op->results)
    results.push_back(book.describe(*result, named.layer));
  return {{"op", named.op->op},      {"backward", named.op->backward}, {"layer", named.layer},
          {"operands", operands},    {"results", results},             {"cuts", cutsOf(book, named)}};
}

// Lists the instructions that stand for the node, and the bytes of theirs that the backward pass
// reads.
json instructionsOf(const PlanIndex &book, const std::string &name, json &saved) {
  const ProgramT &program = book.program;
  json list = json::array();
  std::map<uint32_t, uint64_t> bytes; // by stage
  forEachInstruction(program, [&](const Site &site, const InstructionT &inst) {
    const OriginT &origin = *program.origins[inst.origin];
    const LaunchT *launch = inst.body.AsLaunch();
    const MatmulT *matmul = inst.body.AsMatmul();
    if (!has(origin.nodes, name) || (!launch && !matmul))
      return;
    const ProcedureT &procedure = *program.stages[site.stage]->procedures[site.procedure];
    const KernelT &kernel = *program.kernels[launch ? launch->kernel : matmul->fallback];
    json others = json::array();
    for (const std::string &node : origin.nodes)
      if (node != name)
        others.push_back(node);
    uint64_t kept = savedBytes(program, site);
    bytes[site.stage] += kept;
    list.push_back({{"stage", site.stage},
                    {"procedure", procedure.name},
                    {"phase", toString(inst.phase)},
                    {"kind", launch ? "launch" : "matmul"},
                    {"kernel", kernel.name},
                    {"ops", origin.op},
                    {"with", others},
                    {"saved_bytes", kept},
                    {"per_step", site.times}});
  });
  saved = json::array();
  for (auto [stage, kept] : bytes)
    saved.push_back({{"stage", stage},
                     {"bytes", kept},
                     {"slots", program.stages[stage]->pools.front()->slots},
                     {"total", kept * program.stages[stage]->pools.front()->slots}});
  return list;
}

json trafficOf(const PlanIndex &book, const std::string &name) {
  json list = json::array();
  for (const Traffic &t : book.traffic) {
    const OriginT &origin = *book.program.origins[t.origin];
    bool named = has(origin.nodes, name);
    for (const auto &tensor : origin.tensors)
      named |= has(tensor->names, name);
    if (named)
      list.push_back({{"name", t.name}, {"bytes", t.bytes}, {"per_step", t.perStep}});
  }
  return list;
}

} // namespace

json explainNode(const PlanIndex &book, const std::string &name) {
  json ops = json::array(), saved;
  for (const NamedOp &named : book.opsOf(name))
    ops.push_back(opOf(book, named));
  json instructions = instructionsOf(book, name, saved);
  return {{"what", "node"},         {"name", name},   {"ops", ops}, {"instructions", instructions},
          {"saved", saved},         {"collectives", trafficOf(book, name)}};
}

// Counts the data-parallel ranks that share a state out, each of which has a part of its bytes.
static uint64_t sharedBy(const ProgramT &program, uint32_t stage, const StateShardT &state) {
  return state.flat ? sizeOf(*program.mesh, program.stages[stage]->flat_groups[state.flat->group]->axes) : 1;
}

json explainParameter(const PlanIndex &book, const std::string &name) {
  const ProgramT &program = book.program;
  const SourceTensorT &source = *book.sourceOf(name);
  json states = json::array(), readers = json::array(), cuts = json::array();
  for (uint32_t s = 0; s < program.stages.size(); ++s)
    for (const StateShardT *state : book.statesOf(s, source.name)) {
      LayoutT layout;
      for (const auto &dim : state->dims)
        layout.dims.push_back(std::make_unique<DimShardingT>(*dim));
      uint64_t bytes = elementsOf(state->local_shape) * byteSize(state->dtype), shared = sharedBy(program, s, *state);
      states.push_back({{"stage", s},
                        {"role", toString(state->role)},
                        {"owner", state->owner},
                        {"layout", book.layoutText(state->global_shape, &layout)},
                        {"local_shape", state->local_shape},
                        {"shared_by", shared},
                        {"bytes", (bytes + shared - 1) / shared}});
    }
  std::set<std::string> seen;
  for (const auto &op : program.ops)
    for (const auto &operand : op->operands)
      for (size_t k = 0; k < operand->names.size(); ++k) {
        if (operand->names[k] != source.name)
          continue;
        NamedOp named{op.get(), operand->names.size() > 1 ? int64_t(k) : -1};
        std::string node;
        for (size_t i = 0; i < op->names.size() && node.empty(); ++i)
          if (op->layers.empty() || int64_t(op->layers[i]) == named.layer)
            node = op->names[i];
        readers.push_back({{"node", node}, {"op", op->op}, {"backward", op->backward}});
        for (json cut : cutsOf(book, named)) {
          cut["node"] = node;
          std::vector<uint32_t> axes = axesNamed(*program.mesh, cut["axis"].get<std::string>());
          if (book.isCutOver(operand->layout.get(), axes) && seen.insert(cut["axis"].get<std::string>()).second)
            cuts.push_back(cut);
        }
      }
  return {{"what", "parameter"},  {"name", source.name},  {"aliases", source.aliases},
          {"shape", source.shape}, {"states", states},     {"cuts", cuts},
          {"read_by", readers},   {"collectives", trafficOf(book, source.name)}};
}

} // namespace llmc::report
