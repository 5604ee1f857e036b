#include "runtime/session/Results.h"

#include "runtime/profile/Profile.h"

#include "lib/planfile/AxisNames.h"
#include "lib/support/Json.h"
#include "lib/support/OutputFile.h"

#include <memory>

using namespace llmc;
using namespace llmc::runtime;
using planfile::ProgramT;
using planfile::StateRole;
using support::ElementType;
using support::error;
using support::ok;
using support::Status;
using support::TensorToWrite;

namespace {

TensorToWrite lossTensor(const std::vector<double> &losses) {
  return {"loss",
          ElementType::F64,
          {static_cast<int64_t>(losses.size())},
          [&losses](const TensorToWrite::Sink &sink) {
            return sink(losses.data(), losses.size() * sizeof(double));
          }};
}

void addParameters(std::vector<TensorToWrite> &tensors, const Executor &executor,
                   const std::string &prefix) {
  const ProgramT &program = executor.program();
  auto states = std::make_shared<SourceStates>(program); // until the last tensor is written
  for (size_t source = 0; source < program.sources.size(); ++source)
    if (hasState(*states, source, StateRole::Parameter))
      addUnderAllNames(
          tensors, *program.sources[source], weightType(*states, source), prefix,
          [&executor, states, source] { return gatherWeights(executor, *states, source); });
}

// Makes the phase count the bytes of the tensors as they are written.
void tell(support::Progress::Phase &phase, std::vector<TensorToWrite> &tensors) {
  uint64_t total = 0;
  for (TensorToWrite &tensor : tensors) {
    total += support::elementCount(tensor.shape).value_or(0) * support::byteSize(tensor.type);
    tensor.produce = [&phase,
                      produce = std::move(tensor.produce)](const TensorToWrite::Sink &sink) {
      return produce([&](const void *data, size_t size) {
        phase.add(size);
        return sink(data, size);
      });
    };
  }
  phase.expect(total);
}

std::map<std::string, std::string> metadataOf(const ProgramT &program) {
  support::OrderedJson layouts = support::OrderedJson::object();
  for (const auto &source : program.sources)
    if (!source->source_layout.empty())
      layouts[source->name] = source->source_layout;
  // Adds "format", which transformers requires of a file before it loads it.
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!layouts.empty())
    metadata["source_layout"] = support::jsonText(layouts);
  return metadata;
}

Status writeText(const std::string &path, std::string_view content) {
  support::Result<support::OutputFile> file = support::OutputFile::create(path);
  if (!file)
    return file.takeError();
  if (Status s = file->write(content); !s)
    return s;
  return file->commit();
}

} // namespace

Status FirstGradients::capture(const Executor &executor) {
  const ProgramT &program = executor.program();
  SourceStates states(program);
  for (size_t source = 0; source < program.sources.size(); ++source) {
    if (!hasState(states, source, StateRole::Accumulator))
      continue;
    support::Result<LogicalTensor> tensor = gather(executor, states, source, StateRole::Accumulator);
    if (!tensor)
      return tensor.takeError();
    bySource_.emplace(source, std::move(*tensor));
  }
  return ok();
}

void Problems::add(const Status &status, const std::string &prefix) {
  if (!status)
    all_ += (all_.empty() ? "" : "; ") + prefix + status.message();
}

Status Problems::status() const { return empty() ? ok() : Status(error(all_)); }

uint64_t runtime::savedBytes(const ProgramT &program) {
  SourceStates states(program);
  uint64_t bytes = 0;
  for (size_t i = 0; i < program.sources.size(); ++i)
    if (hasState(states, i, StateRole::Parameter)) {
      const planfile::SourceTensorT &source = *program.sources[i];
      bytes += *support::elementCount(source.shape) *
               support::byteSize(weightType(states, i)) *
               (savesOwnName(source) + source.aliases.size() + source.transposed_aliases.size());
    }
  return bytes;
}

Status runtime::writeDump(const std::string &path, const Executor &executor,
                          const std::vector<double> &losses, const FirstGradients &gradients,
                          const RouteRecorder &routes, support::Progress::Phase &phase) {
  std::vector<TensorToWrite> tensors{lossTensor(losses)};
  for (const auto &[source, tensor] : gradients.bySource()) {
    const LogicalTensor *value = &tensor;
    addUnderAllNames(tensors, *executor.program().sources[source], tensor.type,
                     "grad:", [value] { return *value; });
  }
  addParameters(tensors, executor, "param:");
  for (const auto &[router, step] : routes.last())
    tensors.push_back({"route:" + router, ElementType::I32, step.shape,
                       [&experts = step.experts](const TensorToWrite::Sink &sink) {
                         return sink(experts.data(), experts.size() * sizeof(int32_t));
                       }});
  tell(phase, tensors);
  return support::writeSafetensors(path, tensors);
}

Status runtime::saveModel(const std::string &folder, const Executor &executor,
                          support::Progress::Phase &phase) {
  if (Status s = support::makeDirectory(folder); !s)
    return s;
  std::vector<TensorToWrite> tensors;
  addParameters(tensors, executor, "");
  tell(phase, tensors);
  if (Status status = support::writeSafetensors(folder + "/model.safetensors", tensors,
                                                metadataOf(executor.program()));
      !status)
    return status;
  const std::string &config = executor.program().model->config_json;
  return config.empty() ? ok() : writeText(folder + "/config.json", config);
}

Status runtime::writeProfileRows(const std::string &path, const Executor &executor) {
  const Profile &profile = *executor.profile();
  support::OrderedJson rows = support::OrderedJson::array();
  for (const Profile::Sum &sum : profile.sums())
    rows.push_back({sum.stage, sum.op, sum.calls, sum.wall});
  support::OrderedJson all = {{"steps", profile.steps()},     {"wall_ns", profile.wall()},
                              {"driven_ns", profile.driven()}, {"workers", executor.workers()},
                              {"threads", executor.threadsPerRank()}, {"peak_bytes", peakMemory()}, {"rows", rows}};
  return writeText(path, support::jsonText(all) + "\n");
}

Status runtime::writeCounts(const std::string &path, const Executor &executor, uint64_t steps) {
  support::Result<std::vector<Count>> counts = executor.counts();
  if (!counts)
    return counts.takeError();
  const ProgramT &program = executor.program();
  support::OrderedJson collectives = support::OrderedJson::array();
  support::OrderedJson sends = support::OrderedJson::array();
  for (const Count &count : *counts) {
    if (steps != 0 && count.calls % steps != 0)
      return error("stage ", count.stage, " made ", count.calls, " calls of one instruction in ",
                   steps, " steps");
    uint64_t each = steps ? count.calls / steps : 0;
    const planfile::OriginT &from = *program.origins[count.origin];
    if (const planfile::CollectiveT *c = count.collective) {
      // Lists a collective that spans stages once, at the lowest of them.
      bool overStages = false;
      support::OrderedJson axes = planfile::userNames(*program.mesh, c->axes);
      for (uint32_t axis : c->axes)
        overStages |= axis == program.stage_axis;
      uint32_t lowest = c->members.empty() ? 0 : c->members[0];
      if (overStages && count.stage != lowest)
        continue;
      collectives.push_back({{"kind", std::string(toString(c->kind))},
                             {"axes", axes},
                             {"stage", count.stage},
                             {"phase", std::string(toString(count.phase))},
                             {"bytes", planfile::payloadBytes(*program.mesh, *c)},
                             {"per_step", each},
                             {"origin",
                              {{"op", from.op},
                               {"nodes", from.nodes},
                               {"tactic", from.tactic},
                               {"rule", from.rule}}}});
      if (c->rows)
        collectives.back()["rows"] = count.rows;
    } else if (const planfile::SendT *s = count.send) {
      uint64_t bytes = 0;
      for (const auto &part : s->parts)
        bytes += part->size;
      // Behind the last stage comes the first one, which runs the next chunk.
      int64_t stages = int64_t(program.stages.size());
      int64_t toStage = s->axis == program.stage_axis ? (count.stage + s->delta + stages) % stages : count.stage;
      sends.push_back({{"from_stage", count.stage},
                       {"to_stage", toStage},
                       {"bytes", bytes},
                       {"per_step", each}});
    }
  }
  support::OrderedJson all = {{"steps", steps}, {"collectives", collectives}, {"sends", sends}};
  return writeText(path, support::jsonText(all, 1) + "\n");
}
