// Runs plans on an executor with one worker thread and without the library, for reproducible
// bits.
#include "lib/verify/mutation/MutantRun.h"

#include "lib/verify/subject/RunPlan.h"
#include "runtime/states/Random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace llmc::verify {

using planfile::DType;
using planfile::ProgramT;
using planfile::StateRole;
using planfile::StateShardT;
using runtime::Executor;
using support::Status;

namespace {

// Counts the drawn orders in which a mutant is run that no checker and no number kills.
constexpr uint64_t kOrders = 6;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Returns whether a state is compared: floats, but not the step's own sums, which have no view,
// since each rank keeps its part of them.
bool isSeen(const StateShardT &state) {
  return (state.role != StateRole::Accumulator || state.view) &&
         (state.dtype == DType::F32 || state.dtype == DType::F64);
}

template <class F>
void forEachState(const ProgramT &program, uint32_t stage, F f) {
  for (const auto &state : program.stages[stage]->states)
    if (isSeen(*state))
      f(*state);
}

double outputAt(const std::byte *arena, const planfile::StepOutputT &output) {
  float value;
  std::memcpy(&value, arena + output.buffer->offset, sizeof value);
  return value;
}

struct Squares {
  double distance = 0, size = 0;
};
template <class T>
Squares squaresOf(const std::byte *got, const std::byte *expected, size_t bytes) {
  Squares sum;
  if (std::memcmp(got, expected, bytes) == 0)
    got = expected; // in the usual case only the size is needed
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, got + i, sizeof a);
    std::memcpy(&b, expected + i, sizeof b);
    sum.distance += (double(a) - b) * (double(a) - b);
    sum.size += double(b) * b;
  }
  return sum;
}

double quotient(double distance, double size) {
  if (distance == 0)
    return 0;
  double value = distance / size;
  return std::isfinite(value) ? value : kInfinite;
}

// Returns the relative difference of a result; elements other than floats must be equal.
double differenceOf(DType type, const std::byte *got, const std::vector<std::byte> &expected) {
  if (std::memcmp(got, expected.data(), expected.size()) == 0)
    return 0;
  if (type != DType::F32 && type != DType::F64)
    return kInfinite;
  Squares squares = type == DType::F64
                        ? squaresOf<double>(got, expected.data(), expected.size())
                        : squaresOf<float>(got, expected.data(), expected.size());
  return quotient(std::sqrt(squares.distance), std::sqrt(squares.size));
}

double largestFloat(const std::vector<std::byte> &bytes) {
  double largest = 0;
  for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    largest = std::isnan(value) ? kInfinite : std::max(largest, std::abs(double(value)));
  }
  return largest;
}

// Returns whether a buffer overlaps a gradient accumulator (it may span several).
bool inAccumulator(const planfile::StageT &stage, const planfile::BufferRefT &buffer) {
  return std::any_of(stage.states.begin(), stage.states.end(), [&](const auto &state) {
    return state->role == StateRole::Accumulator &&
           state->buffer->offset < buffer.offset + buffer.size &&
           buffer.offset < state->buffer->offset + state->buffer->size;
  });
}

// Removes the instructions that set accumulators to zero.
void keepAccumulators(ProgramT &program) {
  for (auto &stage : program.stages)
    for (auto &procedure : stage->procedures)
      if (procedure->kind == planfile::ProcedureKind::Begin)
        std::erase_if(procedure->instructions, [&](const auto &inst) {
          const auto *fill = inst->body.AsFill();
          return fill && inAccumulator(*stage, *fill->dst);
        });
}

} // namespace

support::Result<std::unique_ptr<MutantRunner>>
MutantRunner::create(const ProgramT &program, const runtime::Kernels &kernels,
                     const Trial &trial, double noise) {
  std::unique_ptr<MutantRunner> runner(new MutantRunner(program, kernels));
  runner->trial = &trial;
  runner->noise = noise;
  for (const StepData &data : trial.steps) {
    auto packed = packInputs(program, data);
    if (!packed)
      return packed.takeError();
    runner->inputs.push_back(std::move(*packed));
  }
  ProgramT plan(program);
  if (noise > 0)
    keepAccumulators(plan);
  auto executor = runner->start(plan);
  if (!executor)
    return executor.takeError();
  fillWeights(**executor, trial.weights);
  if (noise > 0)
    runner->addNoise(**executor);
  for (uint32_t rank = 0; rank < (*executor)->ranks(); ++rank) {
    const std::byte *arena = (*executor)->arena(rank);
    runner->arenas.emplace_back(
        arena, arena + program.stages[(*executor)->stageOfRank(rank)]->arena_bytes);
  }
  for (size_t step = 0; step < trial.steps.size(); ++step) {
    if (Status status = runner->step(**executor, step); !status)
      return status.takeError();
    runner->expected.push_back(runner->see(**executor));
  }
  return runner;
}

support::Result<std::unique_ptr<Executor>>
MutantRunner::start(const ProgramT &plan, std::optional<uint64_t> order) const {
  runtime::ExecutorOptions options;
  options.interleaving = order;
  options.workers = 1;
  options.threadsPerRank = 1;
  options.useLibrary = false;
  auto executor = Executor::create(plan, kernels, options);
  if (executor)
    for (uint32_t rank = 0; rank < arenas.size(); ++rank)
      std::memcpy((*executor)->arena(rank), arenas[rank].data(), arenas[rank].size());
  return executor;
}

void MutantRunner::addNoise(const Executor &executor) const {
  uint64_t at = 0;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    for (const auto &state : program.stages[executor.stageOfRank(rank)]->states) {
      if (state->role != StateRole::Accumulator || state->dtype != DType::F32)
        continue;
      std::byte *to = executor.arena(rank) + state->buffer->offset;
      for (uint64_t i = 0; i < state->buffer->size; i += sizeof(float)) {
        float value = static_cast<float>(noise * runtime::normal(1, 0, at++));
        std::memcpy(to + i, &value, sizeof value);
      }
    }
}

Status MutantRunner::step(Executor &executor, size_t step) const {
  writeScalars(executor, trial->steps[step].scalars);
  std::vector<const std::byte *> pointers;
  for (const auto &bytes : inputs[step])
    pointers.push_back(bytes.data());
  return executor.runStep(pointers);
}

StepSnapshot MutantRunner::see(const Executor &executor) const {
  StepSnapshot seen;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank) {
    uint32_t stage = executor.stageOfRank(rank);
    const std::byte *arena = executor.arena(rank);
    for (const auto &output : program.stages[stage]->outputs)
      seen.outputs.push_back(outputAt(arena, *output));
    forEachState(program, stage, [&](const StateShardT &state) {
      const std::byte *from = arena + state.buffer->offset;
      seen.states.emplace_back(from, from + state.buffer->size);
    });
    for (const auto &result : program.stages[stage]->results) {
      const std::byte *from = arena + result->buffer->offset;
      seen.results.emplace_back(from, from + result->buffer->size);
    }
  }
  return seen;
}

double MutantRunner::largestOutput() const {
  double largest = 0;
  for (const StepSnapshot &seen : expected) {
    for (double value : seen.outputs)
      largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : kInfinite;
    largest = std::max(largest, largestResult(seen));
  }
  return largest;
}

double MutantRunner::largestResult(const StepSnapshot &seen) const {
  double largest = 0;
  size_t at = 0;
  for (uint32_t rank = 0; rank < arenas.size(); ++rank)
    for (const auto &result : program.stages[planfile::stageOf(program, rank)]->results)
      if (const auto &bytes = seen.results[at++]; result->dtype == DType::F32)
        largest = std::max(largest, largestFloat(bytes));
  return largest;
}

double MutantRunner::loss() const {
  if (program.mode == planfile::Mode::Infer)
    return largestResult(expected.front());
  double loss = 0;
  size_t at = 0;
  for (uint32_t rank = 0; rank < arenas.size(); ++rank)
    for (const auto &output : program.stages[planfile::stageOf(program, rank)]->outputs) {
      double value = expected.front().outputs[at++];
      if (output->name == "loss")
        loss = std::max(loss, value);
    }
  return loss;
}

bool MutantRunner::compareRank(const StepSnapshot &expected, size_t &at, const Executor &executor,
                               uint32_t rank, double limit, RunResult &result) const {
  struct One {
    const StateShardT *state;
    Squares squares;
  };
  std::vector<One> all;
  std::map<StateRole, double> sizes;
  forEachState(program, executor.stageOfRank(rank), [&](const StateShardT &state) {
    const std::vector<std::byte> &was = expected.states[at++];
    const std::byte *got = executor.arena(rank) + state.buffer->offset;
    Squares squares = state.dtype == DType::F64
                          ? squaresOf<double>(got, was.data(), was.size())
                          : squaresOf<float>(got, was.data(), was.size());
    sizes[state.role] += squares.size;
    all.push_back({&state, squares});
  });
  for (const One &one : all) {
    double floor = 1e-3 * std::sqrt(sizes[one.state->role]);
    double error = quotient(std::sqrt(one.squares.distance),
                            std::max(std::sqrt(one.squares.size), floor));
    if (error > limit) {
      result = {"numbers", error,
                std::string(planfile::toString(one.state->role)) + " '" + one.state->name + "'"};
      return false;
    }
  }
  return true;
}

bool MutantRunner::compareResults(const StepSnapshot &expected, const Executor &executor,
                                  double limit, RunResult &result) const {
  size_t at = 0;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    for (const auto &one : program.stages[executor.stageOfRank(rank)]->results) {
      double error = differenceOf(one->dtype, executor.arena(rank) + one->buffer->offset,
                                  expected.results[at++]);
      if (error > limit) {
        result = {"numbers", error, "result '" + one->name + "'"};
        return false;
      }
    }
  return true;
}

bool MutantRunner::compare(const StepSnapshot &expected, const Executor &executor, double limit,
                           RunResult &result) const {
  size_t output = 0, state = 0;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    for (const auto &named : program.stages[executor.stageOfRank(rank)]->outputs) {
      double error = relativeError(outputAt(executor.arena(rank), *named),
                                   expected.outputs[output++]);
      if (error > limit) {
        result = {"numbers", error, named->name};
        return false;
      }
    }
  if (!compareResults(expected, executor, limit, result))
    return false;
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank)
    if (!compareRank(expected, state, executor, rank, limit, result))
      return false;
  return true;
}

RunResult MutantRunner::run(ProgramT mutant, double limit) const {
  if (noise > 0)
    keepAccumulators(mutant);
  auto executor = start(mutant);
  if (!executor)
    return {"refused", kInfinite, executor.message()};
  RunResult result;
  for (size_t step = 0; step < expected.size(); ++step) {
    if (Status status = this->step(**executor, step); !status) {
      bool blocked = status.message().rfind("all ranks are blocked", 0) == 0;
      return {blocked ? "deadlock" : "refused", kInfinite, status.message()};
    }
    if (!compare(expected[step], **executor, limit, result))
      break;
  }
  return result;
}

bool MutantRunner::passesInDrawnOrders(const ProgramT &mutant, double limit) const {
  for (uint64_t order = 1; order <= kOrders; ++order) {
    auto executor = start(mutant, order);
    if (!executor)
      return false;
    RunResult result;
    for (size_t step = 0; step < expected.size(); ++step)
      if (!this->step(**executor, step) || !compare(expected[step], **executor, limit, result))
        return false;
  }
  return true;
}

} // namespace llmc::verify
