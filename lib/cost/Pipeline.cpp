#include "lib/cost/Pipeline.h"

#include "lib/schedules/Schedules.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

using namespace llmc;
using namespace llmc::cost;

std::vector<double> llmc::cost::runSchedule(const std::vector<std::vector<ChunkPasses>> &passes, Order order,
                                            int64_t microBatches, double message) {
  const auto p = int64_t(passes.size()), v = int64_t(passes.front().size()), m = microBatches;
  std::vector<std::vector<Step>> steps;
  for (int64_t stage = 0; stage < p; ++stage)
    steps.push_back(stepsOf(nameOf(order), m, v, stage, p));
  // Holds when the forward and backward of a micro-batch ended, by virtual stage; < 0: not yet.
  std::vector<double> forward(p * v * m, -1), backward(p * v * m, -1), now(p, 0);
  std::vector<size_t> next(p, 0);
  auto at = [&](std::vector<double> &ends, int64_t virtualStage, int64_t microBatch) -> double & {
    return ends[virtualStage * m + microBatch];
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (int64_t stage = 0; stage < p; ++stage)
      for (; next[stage] < steps[stage].size(); ++next[stage], progress = true) {
        const Step &step = steps[stage][next[stage]];
        const int64_t here = step.chunk * p + stage;
        const ChunkPasses &own = passes[stage][step.chunk];
        double needed = 0;
        if (step.kind == StepKind::F && here > 0)
          needed = at(forward, here - 1, step.microBatch);
        else if (step.kind == StepKind::B)
          needed = here + 1 < p * v ? at(backward, here + 1, step.microBatch) : at(forward, here, step.microBatch);
        if (needed < 0)
          break;
        bool travels = p > 1 && (step.kind == StepKind::F ? here > 0 : step.kind == StepKind::B && here + 1 < p * v);
        double seconds = step.kind == StepKind::F ? own.forward : step.kind == StepKind::B ? own.backward : own.weights;
        now[stage] = std::max(now[stage], needed + (travels ? message : 0)) + seconds;
        if (step.kind != StepKind::W)
          at(step.kind == StepKind::F ? forward : backward, here, step.microBatch) = now[stage];
      }
  }
  return now;
}

static std::vector<Alive> aliveOf(const Choices &choices, int64_t stage) {
  std::vector<Alive> now(choices.chunks), most(choices.chunks);
  const bool splits = choices.order == Order::ZeroBubble;
  for (const Step &step : stepsOf(nameOf(choices.order), choices.microBatches, choices.chunks, stage, choices.mesh.pp)) {
    Alive &at = now[step.chunk], &high = most[step.chunk];
    if (step.kind == StepKind::F)
      ++at.toBackward, ++at.toWeights;
    if (step.kind == StepKind::B)
      ++at.fromBackward;
    high.toBackward = std::max(high.toBackward, at.toBackward);
    high.toWeights = std::max(high.toWeights, at.toWeights);
    high.fromBackward = std::max(high.fromBackward, at.fromBackward);
    if (step.kind == StepKind::B)
      --at.toBackward;
    if (step.kind == (splits ? StepKind::W : StepKind::B))
      --at.toWeights, --at.fromBackward;
  }
  return most;
}

std::shared_ptr<const std::vector<std::vector<Alive>>> llmc::cost::countAlive(const Choices &choices) {
  // Keeps what was counted: a search asks for few orders many times.
  constexpr size_t most = 1 << 14;
  using Counts = std::shared_ptr<const std::vector<std::vector<Alive>>>;
  static std::mutex mutex;
  static std::map<std::tuple<Order, int64_t, int64_t, int64_t>, Counts> counts;
  // Counts few of many micro-batches: no more are alive, but where all forwards come first.
  Choices few = choices;
  const int64_t p = choices.mesh.pp, steady = 2 * p + choices.microBatches % p;
  if (choices.order != Order::GPipe)
    few.microBatches = std::min(choices.microBatches, steady);
  std::tuple key(choices.order, few.microBatches, choices.chunks, p);
  {
    std::lock_guard lock(mutex);
    if (auto found = counts.find(key); found != counts.end())
      return found->second;
  }
  auto alive = std::make_shared<std::vector<std::vector<Alive>>>();
  for (int64_t stage = 0; stage < choices.mesh.pp; ++stage)
    alive->push_back(aliveOf(few, stage));
  std::lock_guard lock(mutex);
  if (counts.size() > most)
    counts.clear();
  return counts.emplace(key, std::move(alive)).first->second;
}
