#include "lib/report/Report.h"

#include "lib/planfile/AxisNames.h"
#include "lib/planfile/Trace.h"
#include "lib/planfile/Elements.h"
#include "lib/planfile/Program.h"
#include "lib/report/ElementTypes.h"
#include "lib/report/Experts.h"
#include "lib/report/Memory.h"
#include "lib/report/Timeline.h"
#include "lib/support/Checkpoint.h"

#include <algorithm>
#include <map>
#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
namespace {

json describeMesh(const ProgramT &program) {
  json mesh;
  for (AxisRole role : kAxisRoles)
    if (role != AxisRole::ExpertData) // it follows from the others
      mesh[std::string(nameOf(role))] = sizeOf(*program.mesh, role);
  return mesh;
}

json describeModel(const ProgramT &program) {
  int64_t parameters = 0, layers = 0;
  for (const auto &stage : program.stages) {
    for (const auto &chunk : stage->chunks)
      layers += std::max(0, chunk->last_layer - chunk->first_layer + 1);
    for (const auto &state : stage->states)
      if (state->role == StateRole::Parameter && state->owner)
        parameters += elementsOf(state->global_shape);
  }
  json model = {{"name", program.model->name},
                {"parameters", parameters},
                {"layers", layers},
                {"blocks", program.model->blocks}};
  if (program.active_parameters)
    model["active_parameters"] = program.active_parameters;
  return model;
}

// Describes mixtures by their products: the experts of all ranks and of one, the rows for which a rank has room,
// and those that an expert takes, by their average. Null without any.
json describeExperts(const ProgramT &program) {
  auto [all, own] = countExperts(program);
  if (own == 0)
    return nullptr;
  return {{"experts", all},
          {"local_experts", own},
          {"budget", program.moe_budget},
          {"budget_most", program.moe_budget_most},
          {"capacity", program.moe_capacity}};
}

// Lists the sources that some stage holds as a parameter, in their own order.
json parameterNames(const ProgramT &program) {
  std::set<uint32_t> held;
  for (const auto &stage : program.stages)
    for (const auto &state : stage->states)
      if (state->role == StateRole::Parameter)
        held.insert(state->view->source);
  json names = json::array();
  for (uint32_t source : held)
    names.push_back(program.sources[source]->name);
  return names;
}

json parameterShapes(const ProgramT &program) {
  json shapes = json::object();
  for (const auto &stage : program.stages)
    for (const auto &state : stage->states)
      if (state->role == StateRole::Parameter)
        shapes[program.sources[state->view->source]->name] =
            program.sources[state->view->source]->shape;
  return shapes;
}

// Describes how the model's files store each source.
json parameterTypes(const ProgramT &program) {
  json types = json::object();
  for (const auto &source : program.sources) {
    if (source->file < 0)
      continue;
    std::optional<support::ScaleLocation> scales;
    if (const ScalesT *given = source->scales.get())
      scales = {given->file, given->file_offset, elementType(*given), given->block[0],
                given->block[1]};
    types[source->name] = support::storedText(elementType(*source), scales);
  }
  return types;
}

json describeStages(const ProgramT &program) {
  json list = json::array();
  std::vector<uint64_t> live = peakLiveBytes(program);
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    const StageT &stage = *program.stages[s];
    // Collects the slots that the table uses, by pool. The main pool of a chunk is its first one;
    // `slots` are those of all main pools together.
    std::vector<std::set<uint32_t>> used(stage.pools.size());
    for (const auto &entry : stage.table) {
      ProcedureKind kind = stage.procedures[entry->procedure]->kind;
      if (kind != ProcedureKind::Begin && kind != ProcedureKind::Update)
        used[entry->pool].insert(entry->slot);
    }
    json chunks = json::array();
    size_t slots = 0;
    int64_t first = 0, last = -1;
    for (size_t c = 0; c < stage.chunks.size(); ++c) {
      const ChunkT &chunk = *stage.chunks[c];
      auto pool = std::find_if(stage.pools.begin(), stage.pools.end(),
                               [&](const auto &pool) { return pool->chunk == c; });
      size_t count =
          pool == stage.pools.end() ? 0 : used[size_t(pool - stage.pools.begin())].size();
      chunks.push_back(
          {{"first_layer", chunk.first_layer}, {"last_layer", chunk.last_layer}, {"slots", count}});
      slots += count;
      if (c == 0)
        first = chunk.first_layer;
      last = chunk.last_layer;
    }
    list.push_back({{"stage", s},
                    {"first_layer", first},
                    {"last_layer", last},
                    {"chunks", chunks},
                    {"slots", slots},
                    {"in_flight", inFlight(program, s)},
                    {"arena_bytes", stage.arena_bytes},
                    {"live_bytes", live[s]}});
  }
  return list;
}

json describeCollectives(const ProgramT &program, const std::vector<Traffic> &traffic) {
  json list = json::array();
  for (const Traffic &t : traffic) {
    if (t.isSend)
      continue;
    json axes = userNames(*program.mesh, t.axes);
    const OriginT &origin = *program.origins[t.origin];
    list.push_back({{"name", t.name},
                    {"kind", t.kind},
                    {"axes", axes},
                    {"stage", t.stage},
                    {"phase", toString(t.phase)},
                    {"bytes", t.bytes},
                    {"per_step", t.perStep},
                    {"origin", originTitle(origin)},
                    {"source",
                     {{"op", origin.op},
                      {"nodes", origin.nodes},
                      {"tactic", origin.tactic},
                      {"rule", origin.rule}}}});
  }
  return list;
}

json describeTable(const Timeline &timeline) {
  json list = json::array();
  for (size_t s = 0; s < timeline.stages.size(); ++s)
    for (const Cell &cell : timeline.stages[s])
      list.push_back({{"stage", s},
                      {"column", cell.column},
                      {"kind", std::string(1, cell.kind)},
                      {"chunk", cell.chunk},
                      {"micro_batch", cell.microBatch}});
  return list;
}

json describeSends(const ProgramT &program, const std::vector<Traffic> &traffic) {
  json list = json::array();
  for (const Traffic &t : traffic)
    if (t.isSend)
      list.push_back({{"name", t.name},
                      {"axis", userNames(*program.mesh, t.axes).front()},
                      {"stage", t.stage},
                      {"chunk", t.chunk},
                      {"phase", toString(t.phase)},
                      {"from_stage", t.stage},
                      {"to_stage", t.toStage},
                      {"bytes", t.bytes},
                      {"per_step", t.perStep}});
  return list;
}

json describeTypes(const ProgramT &program) {
  json types = json::object();
  for (const auto &[role, type] : elementTypesOf(program))
    types[role] = type;
  return types;
}

json describeMemory(const ProgramT &program) {
  json list = json::array();
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    json entry = {{"stage", s}, {"arena_bytes", program.stages[s]->arena_bytes}};
    for (const auto &[kind, bytes] : memoryOf(program, s))
      entry[kind] = bytes;
    list.push_back(std::move(entry));
  }
  return list;
}

// Counts how often a step runs each kernel, over all stages; for products, how often without a
// library.
json kernelUses(const ProgramT &program) {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> uses; // launches, products
  forEachInstruction(program, [&](const Site &site, const InstructionT &inst) {
    if (const LaunchT *launch = inst.body.AsLaunch())
      uses[launch->kernel].first += site.times;
    if (const MatmulT *matmul = inst.body.AsMatmul())
      uses[matmul->fallback].second += site.times;
  });
  json list = json::array();
  for (const auto &[kernel, counts] : uses)
    list.push_back({{"name", program.kernels[kernel]->name},
                    {"source", program.kernels[kernel]->source},
                    {"launches", counts.first},
                    {"products", counts.second}});
  return list;
}

json kernelNames(const ProgramT &program) {
  std::set<uint32_t> used;
  forEachInstruction(program, [&](const Site &, const InstructionT &inst) {
    if (const LaunchT *launch = inst.body.AsLaunch())
      used.insert(launch->kernel);
    if (const MatmulT *matmul = inst.body.AsMatmul())
      used.insert(matmul->fallback);
  });
  json names = json::array();
  for (uint32_t kernel : used)
    names.push_back(program.kernels[kernel]->name);
  return names;
}

json instructionCounts(const ProgramT &program) {
  std::map<std::string, uint64_t> counts;
  forEachInstruction(program, [&](const Site &site, const InstructionT &inst) {
    counts[std::string(toString(inst.body.type))] += site.times;
  });
  return counts;
}

uint64_t microBatches(const ProgramT &program) {
  std::set<uint32_t> seen;
  for (const auto &stage : program.stages)
    for (const auto &entry : stage->table)
      if (stage->procedures[entry->procedure]->kind == ProcedureKind::Forward)
        seen.insert(entry->micro_batch);
  return seen.size();
}

// Returns the rows that a rank feeds for one micro-batch.
int64_t microBatch(const ProgramT &program) {
  int64_t rows = program.micro_batch;
  forEachInstruction(program, [&](const Site &, const InstructionT &inst) {
    const FeedT *feed = inst.body.AsFeed();
    if (feed && program.mode == Mode::Train)
      rows = program.inputs[feed->input]->local_shape.front();
  });
  return rows;
}

// Describes what one step takes, all ranks and micro-batches together.
json describeInputs(const ProgramT &program) {
  json list = json::array();
  for (const auto &input : program.inputs) {
    std::vector<int64_t> shape = input->global_shape;
    if (program.mode == Mode::Train) {
      shape = input->local_shape;
      shape[0] = program.global_batch;
    }
    list.push_back({{"name", input->name}, {"dtype", numpyName(input->dtype)}, {"shape", shape}});
  }
  return list;
}

json describeOutputs(const ProgramT &program) {
  json list = json::array();
  std::set<std::string> seen; // several stages may have a step's scalars
  for (const auto &stage : program.stages) {
    for (const auto &output : stage->outputs)
      if (seen.insert(output->name).second)
        list.push_back({{"name", output->name}, {"dtype", "float32"}, {"shape", json::array()}});
    for (const auto &result : stage->results)
      list.push_back({{"name", result->name},
                      {"dtype", numpyName(result->dtype)},
                      {"shape", result->global_shape}});
  }
  return list;
}

uint64_t stateBytes(const ProgramT &program) {
  uint64_t bytes = 0;
  for (const auto &stage : program.stages) {
    std::set<uint64_t> counted; // bytes that several tensors share
    for (const auto &state : stage->states)
      if (!state->flat && state->only_axes.empty())
        bytes += elementsOf(state->local_shape) * byteSize(state->dtype);
      else if (counted.insert(state->buffer->offset).second)
        bytes += state->buffer->size;
  }
  return bytes;
}

} // namespace

static uint64_t largestArena(const ProgramT &program) {
  uint64_t bytes = 0;
  for (const auto &stage : program.stages)
    bytes = std::max(bytes, stage->arena_bytes);
  return bytes;
}

json inspectJson(const ProgramT &program, uint64_t fileBytes, const ProgramT *retry) {
  std::vector<Traffic> traffic = listTraffic(program);
  Timeline timeline = timelineOf(program);
  return {{"model", describeModel(program)},
          {"mode", program.mode == Mode::Infer ? "infer" : "train"},
          {"inputs", describeInputs(program)},
          {"outputs", describeOutputs(program)},
          {"parameters", parameterNames(program)},
          {"parameter_shapes", parameterShapes(program)},
          {"parameter_types", parameterTypes(program)},
          {"constants", program.model->constants},
          {"mesh", describeMesh(program)},
          {"ranks", rankCount(*program.mesh)},
          {"experts", describeExperts(program)},
          {"retry", retry ? json{{"budget", retry->moe_budget}, {"arena_bytes", largestArena(*retry)}} : json()},
          {"micro_batch", microBatch(program)},
          {"micro_batches", microBatches(program)},
          {"schedule", program.mode == Mode::Infer ? "none" : program.schedule},
          {"sequence_parallel", program.sequence_parallel},
          {"cp_kind", program.cp_kind.empty() ? "none" : program.cp_kind},
          {"attention_flops", program.attention_flops},
          {"recompute", program.recompute},
          {"dropout", program.dropout.empty() ? "0" : program.dropout},
          {"memory_limit", program.memory_limit},
          {"stages", describeStages(program)},
          {"dtypes", describeTypes(program)},
          {"memory", describeMemory(program)},
          {"collectives", describeCollectives(program, traffic)},
          {"sends", describeSends(program, traffic)},
          {"table", describeTable(timeline)},
          {"bubble", {{"cells", timeline.cells}, {"empty", timeline.empty}}},
          {"kernels", kernelNames(program)},
          {"kernel_uses", kernelUses(program)},
          {"instructions", instructionCounts(program)},
          {"state_bytes", stateBytes(program)},
          {"file_bytes", fileBytes}};
}

} // namespace llmc::report
