// Drives runtime::Executor with the rows, weights and scalars of a trial, and reads its outcome.
#include "lib/verify/subject/RunPlan.h"

#include "lib/planfile/Inputs.h"
#include "runtime/states/Gather.h"
#include "runtime/session/Session.h"
#include "runtime/plan/Shard.h"
#include "runtime/states/Weights.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

namespace llmc::verify {

using planfile::DType;
using planfile::ProgramT;
using planfile::StateRole;
using planfile::StateShardT;
using runtime::Executor;
using support::error;

namespace {

template <typename F>
void forEachHolder(const Executor &executor, uint32_t stage, F f) {
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    if (executor.stageOfRank(rank) == stage)
      f(rank, planfile::coordinateOf(*executor.program().mesh, rank));
}

double readElement(DType type, const std::byte *data, int64_t i) {
  switch (type) {
  case DType::F64:
    return reinterpret_cast<const double *>(data)[i];
  case DType::I64:
    return static_cast<double>(reinterpret_cast<const int64_t *>(data)[i]);
  case DType::I32:
    return reinterpret_cast<const int32_t *>(data)[i];
  case DType::F32:
    return reinterpret_cast<const float *>(data)[i];
  case DType::BF16:
    return support::bfloatToFloat(reinterpret_cast<const uint16_t *>(data)[i]);
  case DType::F16:
    return support::halfToFloat(reinterpret_cast<const uint16_t *>(data)[i]);
  default:
    return std::to_integer<int>(data[i]);
  }
}

// Calls f(local element, global element) for each element of a rank's shard of a result, leaving
// out padding.
template <typename F>
void forEachElement(const planfile::OutputBindingT &result, const planfile::MeshT &mesh,
                    const std::vector<uint32_t> &at, F f) {
  size_t rank = result.local_shape.size();
  std::vector<int64_t> starts(rank, 0);
  for (size_t d = 0; d < result.dims.size(); ++d) {
    int64_t part = 0;
    for (uint32_t axis : result.dims[d]->axes)
      part = part * mesh.axes[axis]->size + at[axis];
    starts[d] = part * result.local_shape[d];
  }
  int64_t count = 1;
  for (int64_t size : result.local_shape)
    count *= size;
  for (int64_t local = 0; local < count; ++local) {
    int64_t rest = local, element = 0, scale = 1;
    bool valid = true;
    for (size_t d = rank; d-- > 0;) {
      int64_t index = starts[d] + rest % result.local_shape[d];
      rest /= result.local_shape[d];
      valid &= index < result.global_shape[d];
      element += index * scale;
      scale *= result.global_shape[d];
    }
    if (valid)
      f(local, element);
  }
}

void writeElement(DType type, std::byte *data, int64_t i, double value) {
  switch (type) {
  case DType::I64:
    reinterpret_cast<int64_t *>(data)[i] = static_cast<int64_t>(value);
    break;
  case DType::I32:
    reinterpret_cast<int32_t *>(data)[i] = static_cast<int32_t>(value);
    break;
  case DType::F64:
    reinterpret_cast<double *>(data)[i] = value;
    break;
  case DType::F32:
    reinterpret_cast<float *>(data)[i] = static_cast<float>(value);
    break;
  case DType::BF16:
    reinterpret_cast<uint16_t *>(data)[i] = support::BfloatNumber(value).bits;
    break;
  case DType::F16:
    reinterpret_cast<uint16_t *>(data)[i] = support::HalfNumber(value).bits;
    break;
  default:
    data[i] = static_cast<std::byte>(value);
    break;
  }
}

} // namespace

void fillWeights(const Executor &executor, const NamedTensors &sources) {
  const ProgramT &program = executor.program();
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    for (const auto &state : program.stages[stage]->states) {
      const planfile::ViewT *view = planfile::viewOf(*program.stages[stage], *state);
      if ((state->role != StateRole::Parameter && state->role != StateRole::Master) || !view)
        continue;
      auto found = sources.find(program.sources[view->source]->name);
      if (found == sources.end())
        continue;
      forEachHolder(executor, stage, [&](uint32_t rank, const std::vector<uint32_t> &at) {
        std::byte *to = executor.arena(rank) + state->buffer->offset;
        for (const runtime::HeldBox &box : runtime::heldBoxes(program, stage, *state, at))
          runtime::forEachRun(
              box.shard, *view,
              [&](int64_t local, int64_t first, int64_t count, int64_t stride) {
                for (int64_t i = 0; i < count; ++i)
                  writeElement(state->dtype, to, box.at + local + i,
                               found->second.data[first + i * stride]);
              });
      });
    }
}

void writeScalars(const Executor &executor, const std::map<std::string, double> &scalars) {
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    for (const auto &scalar : executor.program().stages[executor.stageOfRank(rank)]->host_scalars)
      if (auto found = scalars.find(scalar->name); found != scalars.end()) {
        auto narrow = static_cast<float>(found->second);
        std::memcpy(executor.arena(rank) + scalar->buffer->offset, &narrow, sizeof narrow);
      }
}

// Checks that the value has the shape that the plan takes in one step.
static support::Status checkShape(const ProgramT &program, const planfile::InputBindingT &input,
                                  const Tensor &value) {
  if (program.mode == planfile::Mode::Infer)
    return value.shape == input.global_shape
               ? support::ok()
               : support::Status(error("input '", input.name, "' has another shape than the plan's"));
  std::vector<int64_t> wanted = planfile::wholeShape(*program.mesh, input);
  auto rowOf = [](const std::vector<int64_t> &shape) {
    return std::accumulate(shape.begin() + 1, shape.end(), int64_t(1), std::multiplies<>());
  };
  if (value.shape[0] != program.global_batch || rowOf(value.shape) != rowOf(wanted))
    return error("input '", input.name, "' has ", value.shape[0], " rows of ", rowOf(value.shape),
                 " elements, the plan wants ", program.global_batch, " of ", rowOf(wanted));
  return support::ok();
}

support::Result<std::vector<std::vector<std::byte>>> packInputs(const ProgramT &program,
                                                                const StepData &data) {
  NamedTensors inputs = allRows(data);
  std::vector<std::vector<std::byte>> packed;
  for (const auto &input : program.inputs) {
    auto found = inputs.find(input->name);
    if (found == inputs.end())
      return error("the plan has an input '", input->name, "' that the model has not");
    const Tensor &value = found->second;
    if (support::Status status = checkShape(program, *input, value); !status)
      return status.takeError();
    std::vector<std::byte> bytes(value.data.size() * planfile::byteSize(input->dtype));
    // Permute as the runtime's loader does before the executor sees the rows.
    std::vector<uint64_t> places = planfile::permutedIndices(*program.mesh, *input);
    auto row = static_cast<int64_t>(places.size());
    for (int64_t i = 0; i < value.size(); ++i)
      writeElement(input->dtype, bytes.data(),
                   row ? i / row * row + static_cast<int64_t>(places[i % row]) : i, value.data[i]);
    packed.push_back(std::move(bytes));
  }
  return packed;
}

// Gathers the states of `role` of every source; of parameters those that training keeps exactly,
// which are their masters where they have one.
support::Result<NamedTensors> gatherSources(const Executor &executor, StateRole role) {
  const ProgramT &program = executor.program();
  runtime::SourceStates states(program);
  NamedTensors tensors;
  for (size_t source = 0; source < program.sources.size(); ++source) {
    if (!runtime::hasState(states, source, role))
      continue;
    support::Result<runtime::LogicalTensor> value =
        role == StateRole::Parameter ? runtime::gatherWeights(executor, states, source)
                                     : runtime::gather(executor, states, source, role);
    if (!value)
      return value.takeError();
    Tensor &tensor = tensors[program.sources[source]->name] = Tensor(program.sources[source]->shape);
    DType type = value->type == support::ElementType::F64 ? DType::F64 : DType::F32;
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data[i] = readElement(type, value->bytes.data(), i);
  }
  return tensors;
}

double maxReplicaDifference(const Executor &executor) {
  const ProgramT &program = executor.program();
  double worst = 0;
  // Map name, role and position of a shard to the first copy of it.
  std::map<std::tuple<std::string, StateRole, std::vector<int64_t>, int64_t>, const std::byte *> first;
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    for (const auto &state : program.stages[stage]->states) {
      // Skip the step's own sums, which belong to no parameter: each rank keeps its own.
      bool gradient = state->role == StateRole::Accumulator && state->view;
      bool weight = state->role == StateRole::Parameter || state->role == StateRole::Master;
      const planfile::ViewT *view = planfile::viewOf(*program.stages[stage], *state);
      if ((!weight && !gradient) || !view)
        continue;
      forEachHolder(executor, stage, [&](uint32_t rank, const std::vector<uint32_t> &at) {
        runtime::HeldRange held = runtime::heldRangeOf(program, stage, *state, at);
        if (held.count == 0)
          return;
        runtime::Shard shard(*state, *program.mesh, at);
        const std::byte *own = executor.arena(rank) + state->buffer->offset;
        auto [entry, isNew] =
            first.try_emplace({state->name, state->role, shard.start, held.first}, own);
        auto size = static_cast<int64_t>(planfile::byteSize(state->dtype));
        if (isNew ||
            std::memcmp(own + held.at * size, entry->second + held.at * size, held.count * size) == 0)
          return;
        for (const runtime::HeldBox &box : runtime::heldBoxes(program, stage, *state, at))
          runtime::forEachRun(box.shard, *view, [&](int64_t local, int64_t, int64_t count, int64_t) {
            for (int64_t i = box.at + local; i < box.at + local + count; ++i) {
              double a = readElement(state->dtype, own, i), b = readElement(state->dtype, entry->second, i);
              if (std::isnan(a) && std::isnan(b))
                continue;
              double difference = std::abs(a - b);
              worst = std::max(worst, std::isnan(difference) ? INFINITY : difference);
            }
          });
      });
    }
  return worst;
}

// Assembles every result from the ranks' shards and compares copies of one element.
static NamedTensors gatherResults(const Executor &executor, double &replicas) {
  const ProgramT &program = executor.program();
  NamedTensors results;
  for (uint32_t stage = 0; stage < program.stages.size(); ++stage)
    for (const auto &result : program.stages[stage]->results) {
      Tensor &whole = results[result->name] = Tensor(result->global_shape);
      std::vector<bool> seen(whole.size());
      forEachHolder(executor, stage, [&](uint32_t rank, const std::vector<uint32_t> &at) {
        const std::byte *own = executor.arena(rank) + result->buffer->offset;
        forEachElement(*result, *program.mesh, at, [&](int64_t local, int64_t element) {
          double value = readElement(result->dtype, own, local), &other = whole.data[element];
          bool same = value == other || (std::isnan(value) && std::isnan(other));
          if (seen[element] && !same)
            replicas = std::max(replicas, std::isnan(value - other) ? INFINITY
                                                                    : std::abs(value - other));
          seen[element] = true;
          other = value;
        });
      });
    }
  return results;
}

// Runs the steps from the last to the first, so that the results kept, those of the first, are
// computed in arenas that other runs have used.
static support::Result<Outcome> runInference(Executor &executor, const Trial &trial, RouteReplay *replay) {
  Outcome outcome;
  for (size_t step = trial.steps.size(); step-- > 0;) {
    if (replay)
      replay->beginStep(step);
    auto packed = packInputs(executor.program(), trial.steps[step]);
    if (!packed)
      return packed.takeError();
    std::vector<const std::byte *> inputs;
    for (const auto &bytes : *packed)
      inputs.push_back(bytes.data());
    if (support::Status status = executor.runStep(inputs); !status)
      return status.takeError();
    outcome.results = gatherResults(executor, outcome.maxReplicaDifference);
  }
  return outcome;
}

support::Result<Outcome> runPlan(const ProgramT &program, const runtime::Kernels &kernels,
                                 const Trial &trial, runtime::ExecutorOptions options,
                                 RouteReplay *replay) {
  if (replay)
    options.routes = replay->hook();
  support::Result<std::unique_ptr<Executor>> made = Executor::create(program, kernels, options);
  if (!made)
    return made.takeError();
  Executor &executor = **made;
  fillWeights(executor, trial.weights);
  if (program.mode == planfile::Mode::Infer)
    return runInference(executor, trial, replay);
  Outcome outcome;
  for (size_t step = 0; step < trial.steps.size(); ++step) {
    if (replay)
      replay->beginStep(step);
    auto packed = packInputs(program, trial.steps[step]);
    if (!packed)
      return packed.takeError();
    std::vector<const std::byte *> inputs;
    for (const auto &bytes : *packed)
      inputs.push_back(bytes.data());
    writeScalars(executor, trial.steps[step].scalars);
    if (support::Status status = executor.runStep(inputs); !status)
      return error("step ", step + 1, ": ", status.message());
    outcome.losses.push_back(runtime::readOutput(executor, "loss").value_or(NAN));
    outcome.maxReplicaDifference =
        std::max(outcome.maxReplicaDifference, maxReplicaDifference(executor));
    if (step != 0)
      continue;
    for (const auto &stage : program.stages)
      for (const auto &output : stage->outputs)
        if (output->name != "loss")
          outcome.outputs[output->name] = runtime::readOutput(executor, output->name).value_or(NAN);
    auto gradients = gatherSources(executor, StateRole::Accumulator);
    if (!gradients)
      return gradients.takeError();
    outcome.gradients = std::move(*gradients);
  }
  auto weights = gatherSources(executor, StateRole::Parameter);
  if (!weights)
    return weights.takeError();
  outcome.weights = std::move(*weights);
  return outcome;
}

support::Result<NamedTensors> initialWeights(const ProgramT &program,
                                             const runtime::Kernels &kernels, uint64_t seed,
                                             const std::string &folder) {
  auto weights = runtime::Weights::open(program, {"", seed, folder});
  if (!weights)
    return weights.takeError();
  runtime::ExecutorOptions options;
  options.useLibrary = false;
  auto executor = Executor::create(program, kernels, options);
  if (!executor)
    return executor.takeError();
  if (support::Status status = weights->fill(**executor); !status)
    return status.takeError();
  return gatherSources(**executor, StateRole::Parameter);
}

} // namespace llmc::verify
