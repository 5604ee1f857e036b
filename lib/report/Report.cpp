#include "lib/report/Report.h"

#include "lib/planfile/CheckWalk.h"
#include "lib/planfile/Program.h"
#include "lib/support/Json.h"

#include <algorithm>
#include <map>
#include <set>

using nlohmann::json;

namespace llmc::report {
using namespace planfile;
namespace {

int64_t elements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

// Executions of each procedure in one step.
std::vector<uint64_t> runsOf(const StageT &stage) {
  std::vector<uint64_t> runs(stage.procedures.size(), 0);
  for (const auto &entry : stage.table)
    ++runs[entry->procedure];
  return runs;
}

// Calls visit(stage, instruction, times a step) for all instructions.
template <class Visit>
void forEachInstruction(const ProgramT &program, Visit visit) {
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    const StageT &stage = *program.stages[s];
    std::vector<uint64_t> runs = runsOf(stage);
    for (size_t p = 0; p < stage.procedures.size(); ++p)
      for (const auto &inst : stage.procedures[p]->instructions)
        if (runs[p])
          visit(s, *inst, runs[p]);
  }
}

json describeMesh(const ProgramT &program) {
  json mesh = {{"dp", 1}, {"pp", 1}, {"tp", 1}, {"cp", 1}, {"ep", 1}};
  for (const auto &axis : program.mesh->axes)
    mesh[axis->name] = axis->size;
  return mesh;
}

json describeModel(const ProgramT &program) {
  int64_t parameters = 0, layers = 0;
  for (const auto &stage : program.stages) {
    layers += std::max(0, stage->last_layer - stage->first_layer + 1);
    for (const auto &state : stage->states)
      if (state->role == StateRole::Parameter && state->owner)
        parameters += elements(state->global_shape);
  }
  return {{"name", program.model->name},
          {"parameters", parameters},
          {"layers", layers},
          {"blocks", program.model->blocks}};
}

// Sources in their own order, as far as a stage holds them as a parameter.
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

json describeStages(const ProgramT &program) {
  json list = json::array();
  for (uint32_t s = 0; s < program.stages.size(); ++s) {
    const StageT &stage = *program.stages[s];
    std::set<uint32_t> slots;
    for (const auto &entry : stage.table) {
      ProcedureKind kind = stage.procedures[entry->procedure]->kind;
      if (kind != ProcedureKind::Begin && kind != ProcedureKind::Update)
        slots.insert(entry->slot);
    }
    list.push_back({{"stage", s},
                    {"first_layer", stage.first_layer},
                    {"last_layer", stage.last_layer},
                    {"slots", slots.size()},
                    {"arena_bytes", stage.arena_bytes},
                    {"live_bytes", peakLiveBytes(program, s)}});
  }
  return list;
}

// Appends `entry` with per_step `times`, or adds to the equal entry.
class Tally {
public:
  void add(json entry, uint64_t times) {
    auto [it, isNew] = index.try_emplace(support::jsonText(entry), list.size());
    if (isNew) {
      entry["per_step"] = times;
      list.push_back(std::move(entry));
    } else {
      list[it->second]["per_step"] = list[it->second]["per_step"].get<uint64_t>() + times;
    }
  }
  json take() { return std::move(list); }

private:
  std::map<std::string, size_t> index;
  json list = json::array();
};

json describeCollectives(const ProgramT &program) {
  Tally tally;
  forEachInstruction(program, [&](uint32_t s, const InstructionT &inst, uint64_t times) {
    const CollectiveT *collective = inst.body.AsCollective();
    if (!collective)
      return;
    Group group = stageGroup(program, *collective, s);
    if (group.size < 2 || (group.spansStages && group.stages.front() != s))
      return;
    json axes = json::array();
    for (uint32_t axis : collective->axes)
      axes.push_back(program.mesh->axes[axis]->name);
    const OriginT &origin = *program.origins[inst.origin];
    tally.add({{"kind", toString(collective->kind)},
               {"axes", axes},
               {"stage", s},
               {"phase", toString(inst.phase)},
               {"bytes", payloadBytes(*program.mesh, *collective)},
               {"origin", origin.nodes.empty() ? origin.op : origin.nodes.front()},
               {"source",
                {{"op", origin.op},
                 {"nodes", origin.nodes},
                 {"tactic", origin.tactic},
                 {"rule", origin.rule}}}},
              times);
  });
  return tally.take();
}

json describeSends(const ProgramT &program) {
  Tally tally;
  forEachInstruction(program, [&](uint32_t s, const InstructionT &inst, uint64_t times) {
    const SendT *send = inst.body.AsSend();
    if (!send)
      return;
    uint64_t bytes = 0;
    for (const auto &part : send->parts)
      bytes += part->size;
    tally.add({{"from_stage", s},
               {"to_stage", peerStage(program, s, send->axis, send->delta)},
               {"bytes", bytes}},
              times);
  });
  return tally.take();
}

json kernelNames(const ProgramT &program) {
  std::set<uint32_t> used;
  forEachInstruction(program, [&](uint32_t, const InstructionT &inst, uint64_t) {
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
  forEachInstruction(program, [&](uint32_t, const InstructionT &inst, uint64_t times) {
    counts[std::string(toString(inst.body.type))] += times;
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

// Rows that a rank feeds for one micro-batch.
int64_t microBatch(const ProgramT &program) {
  int64_t rows = program.micro_batch;
  forEachInstruction(program, [&](uint32_t, const InstructionT &inst, uint64_t) {
    const FeedT *feed = inst.body.AsFeed();
    if (feed && program.mode == Mode::Train)
      rows = program.inputs[feed->input]->local_shape.front();
  });
  return rows;
}

// What one step takes, all ranks and micro-batches together.
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
  for (const auto &stage : program.stages)
    for (const auto &state : stage->states)
      bytes += elements(state->local_shape) * byteSize(state->dtype);
  return bytes;
}

} // namespace

json inspectJson(const ProgramT &program, uint64_t fileBytes) {
  return {{"model", describeModel(program)},
          {"mode", program.mode == Mode::Infer ? "infer" : "train"},
          {"inputs", describeInputs(program)},
          {"outputs", describeOutputs(program)},
          {"parameters", parameterNames(program)},
          {"constants", program.model->constants},
          {"mesh", describeMesh(program)},
          {"ranks", rankCount(*program.mesh)},
          {"micro_batch", microBatch(program)},
          {"micro_batches", microBatches(program)},
          {"schedule", program.schedule},
          {"stages", describeStages(program)},
          {"collectives", describeCollectives(program)},
          {"sends", describeSends(program)},
          {"kernels", kernelNames(program)},
          {"instructions", instructionCounts(program)},
          {"state_bytes", stateBytes(program)},
          {"file_bytes", fileBytes}};
}

} // namespace llmc::report
