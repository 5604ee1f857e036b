#include "lib/cost/PlanPipeline.h"

#include "lib/schedules/Exchanges.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

using namespace llmc;
using namespace llmc::cost;

namespace {

// Holds the order of micro-batches and their exchanges of messages, whatever passes take.
struct Shape {
  struct Stage {
    std::vector<Step> steps;
    std::vector<int64_t> neededBy; // exchange that each step waits for; -1: none
    // Holds the ends of messages, exchange by exchange, each with the step that it waits for (-1: none).
    struct End {
      int64_t freedBy, message;
    };
    std::vector<End> ends;
    std::vector<size_t> exchanges{0}; // where the ends of each begin, and where the last ones end
    size_t count() const { return exchanges.size() - 1; }
  };
  std::vector<Stage> stages;
  int64_t messages = 0; // of a step, each of which has two ends
};

Shape shapeOf(Order order, int64_t microBatches, int64_t chunks, int64_t stages) {
  Shape shape;
  std::vector<std::vector<Step>> steps;
  for (int64_t stage = 0; stage < stages; ++stage) {
    steps.push_back(stepsOf(nameOf(order), microBatches, chunks, stage, stages));
    shape.stages.push_back({steps.back(), std::vector<int64_t>(steps.back().size(), -1), {}, {0}});
  }
  auto columns = columnsOf(steps, chunks);
  if (!columns)
    return shape;
  // Holds a micro-batch's slot from its forward on, and the gradient that comes back from its backward on where gradients of
  // weights are apart (passes/5-schedule/AssignPools).
  std::set<StepKind> whole{StepKind::F, StepKind::B}, back = whole;
  if (order == Order::ZeroBubble)
    whole.insert(StepKind::W), back = {StepKind::B, StepKind::W};
  std::vector<std::vector<DenseSlots>> forward, backward;
  for (int64_t stage = 0; stage < stages; ++stage) {
    forward.push_back(assignDenseSlots(steps[stage], whole, chunks));
    backward.push_back(assignDenseSlots(steps[stage], back, chunks));
  }
  auto freedBy = [&](size_t stage, size_t i) {
    const Step &step = steps[stage][i];
    return (step.kind == StepKind::F ? forward : backward)[stage][step.chunk].freedBy[step.microBatch];
  };
  auto exchanges = exchangesOf(steps, *columns, chunks, freedBy, [](size_t, size_t, size_t) { return true; });
  // Numbers messages by the step that needs them: its direction, virtual stage and micro-batch.
  const int64_t ofDirection = stages * chunks * microBatches;
  shape.messages = 2 * ofDirection;
  for (int64_t stage = 0; stage < stages; ++stage) {
    Shape::Stage &own = shape.stages[stage];
    for (const Exchange &exchange : exchanges[stage]) {
      for (const MessageEnd &end : exchange.ends) {
        const Step &step = steps[stage][end.step];
        const bool isForward = step.kind == StepKind::F;
        const int64_t here = step.chunk * stages + stage, receiver = end.sends ? here + (isForward ? 1 : -1) : here;
        own.ends.push_back({end.sends ? int64_t(end.step) : freedBy(stage, end.step),
                            (isForward ? 0 : ofDirection) + receiver * microBatches + step.microBatch});
        if (!end.sends)
          own.neededBy[end.step] = int64_t(own.count());
      }
      own.exchanges.push_back(own.ends.size());
    }
  }
  return shape;
}

// Returns the shape of an order, which a search asks for again and again, from several threads; the last ones are kept.
std::shared_ptr<const Shape> keptShape(Order order, int64_t microBatches, int64_t chunks, int64_t stages) {
  constexpr size_t most = 4'000'000; // steps
  static std::mutex mutex;
  static std::map<std::tuple<Order, int64_t, int64_t, int64_t>, std::shared_ptr<const Shape>> shapes;
  static size_t size = 0;
  std::tuple key(order, microBatches, chunks, stages);
  {
    std::lock_guard lock(mutex);
    if (auto found = shapes.find(key); found != shapes.end())
      return found->second;
  }
  auto shape = std::make_shared<const Shape>(shapeOf(order, microBatches, chunks, stages));
  std::lock_guard lock(mutex);
  if (size > most)
    shapes.clear(), size = 0;
  size += size_t(2 * microBatches * chunks * stages);
  return shapes.emplace(key, std::move(shape)).first->second;
}

class Run {
public:
  Run(const Shape &shape, const std::vector<std::vector<ChunkPasses>> &passes, double message)
      : shape_(shape), passes_(passes), message_(message), ended_(passes.size()), begins_(passes.size()), done_(passes.size()),
        ready_(shape.messages, {-1, -1}) {
    for (size_t stage = 0; stage < passes.size(); ++stage) {
      ended_[stage].reserve(shape.stages[stage].steps.size());
      begins_[stage].reserve(shape.stages[stage].count()), done_[stage].reserve(shape.stages[stage].count());
    }
  }
  std::vector<double> ends();

private:
  bool advanceSteps(size_t stage);
  bool beginExchange(size_t stage);
  bool endExchange(size_t stage);

  const Shape &shape_;
  const std::vector<std::vector<ChunkPasses>> &passes_;
  double message_;
  std::vector<std::vector<double>> ended_;         // of each step that has
  std::vector<std::vector<double>> begins_, done_; // of exchanges
  std::vector<std::pair<double, double>> ready_;   // when each end of a message has begun; < 0: not yet
};

// Runs the steps of a stage that wait for nothing any more.
bool Run::advanceSteps(size_t stage) {
  const Shape::Stage &own = shape_.stages[stage];
  std::vector<double> &ended = ended_[stage];
  const size_t before = ended.size();
  for (; ended.size() < own.steps.size();) {
    double begin = ended.empty() ? 0 : ended.back();
    if (int64_t exchange = own.neededBy[ended.size()]; exchange >= 0) {
      if (exchange >= int64_t(done_[stage].size()))
        break;
      begin = std::max(begin, done_[stage][exchange]);
    }
    const Step &step = own.steps[ended.size()];
    const ChunkPasses &pass = passes_[stage][step.chunk];
    ended.push_back(begin + (step.kind == StepKind::F ? pass.forward : step.kind == StepKind::B ? pass.backward : pass.weights));
  }
  return ended.size() > before;
}

// Begins the next exchange of a stage, if all that it waits for has ended.
bool Run::beginExchange(size_t stage) {
  const Shape::Stage &own = shape_.stages[stage];
  const size_t next = begins_[stage].size();
  if (next > done_[stage].size() || next >= own.count())
    return false;
  double begin = next ? done_[stage][next - 1] : 0;
  for (size_t i = own.exchanges[next]; i < own.exchanges[next + 1]; ++i) {
    const int64_t step = own.ends[i].freedBy;
    if (step >= int64_t(ended_[stage].size()))
      return false;
    begin = std::max(begin, step < 0 ? 0 : ended_[stage][step]);
  }
  begins_[stage].push_back(begin);
  for (size_t i = own.exchanges[next]; i < own.exchanges[next + 1]; ++i) {
    auto &[one, other] = ready_[own.ends[i].message];
    (one < 0 ? one : other) = begin;
  }
  return true;
}

// Ends the exchange that a stage has begun, if those of the other ends have begun, too.
bool Run::endExchange(size_t stage) {
  const size_t at = done_[stage].size();
  if (at >= begins_[stage].size())
    return false;
  double ended = begins_[stage][at];
  const Shape::Stage &own = shape_.stages[stage];
  for (size_t i = own.exchanges[at]; i < own.exchanges[at + 1]; ++i) {
    auto [one, other] = ready_[own.ends[i].message];
    if (other < 0)
      return false;
    ended = std::max(ended, std::max(one, other) + message_);
  }
  done_[stage].push_back(ended);
  return true;
}

std::vector<double> Run::ends() {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < ended_.size(); ++stage) {
      moved |= advanceSteps(stage);
      moved |= beginExchange(stage);
      moved |= endExchange(stage);
    }
  }
  std::vector<double> ends;
  for (const std::vector<double> &ended : ended_)
    ends.push_back(ended.empty() ? 0 : ended.back());
  return ends;
}

} // namespace

std::vector<double> llmc::cost::runExchanges(const std::vector<std::vector<ChunkPasses>> &passes, Order order,
                                             int64_t microBatches, double message) {
  const auto p = int64_t(passes.size());
  constexpr int64_t most = 12'000; // chunks x micro-batches that take no time worth telling
  const int64_t chunks = p * int64_t(passes.front().size()), rounds = std::clamp<int64_t>(most / (p * chunks), 3, 8);
  const int64_t few = std::min(microBatches, rounds * p + microBatches % p);
  if (p * few > 6 * most)
    return runSchedule(passes, order, microBatches, message);
  auto run = [&](int64_t count) {
    return Run(*keptShape(order, count, int64_t(passes.front().size()), p), passes, message).ends();
  };
  std::vector<double> ends = run(few);
  if (few == microBatches)
    return ends;
  std::vector<double> before = run(few - p);
  for (int64_t stage = 0; stage < p; ++stage)
    ends[stage] += (ends[stage] - before[stage]) * double((microBatches - few) / p);
  return ends;
}

std::vector<double> llmc::cost::leastEnds(const std::vector<std::vector<ChunkPasses>> &passes, Order order, int64_t microBatches,
                                          double message) {
  std::vector<double> ends;
  const double m = double(microBatches);
  double filled = 0, drained = 0, end = 0;
  for (const std::vector<ChunkPasses> &stage : passes) {
    double busy = 0;
    for (const ChunkPasses &chunk : stage)
      busy += m * (chunk.forward + chunk.backward + chunk.weights);
    ends.push_back(filled + busy);
    // Fills the time of the last gradient's way back with gradients of weights, where these are apart.
    end = std::max(end, ends.back() + (order == Order::ZeroBubble ? 0 : drained));
    filled += stage.front().forward + message;
    drained += stage.front().backward + message;
  }
  ends.front() = std::max(ends.front(), end);
  return ends;
}
