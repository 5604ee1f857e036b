#include "lib/cost/PlanPipeline.h"

#include "lib/schedules/Exchanges.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace llmc;
using namespace llmc::cost;

namespace {

// Names a message by the step that needs it.
using Message = std::tuple<StepKind, int64_t, int64_t>; // kind, virtual stage that receives, micro-batch

class Run {
public:
  Run(const std::vector<std::vector<ChunkPasses>> &passes, Order order, int64_t microBatches, double message);
  std::vector<double> ends();

private:
  void findExchanges(bool splits);
  bool advanceSteps(size_t stage);
  bool beginExchange(size_t stage);
  bool endExchange(size_t stage);
  Message messageOf(size_t stage, const MessageEnd &end) const;

  const std::vector<std::vector<ChunkPasses>> &passes_;
  int64_t stages_, chunks_;
  double message_;
  std::vector<std::vector<Step>> steps_;
  std::vector<std::vector<double>> ended_;                 // of each step that has
  std::vector<std::vector<Exchange>> exchanges_;           // of each stage
  std::vector<std::map<size_t, size_t>> neededBy_;         // exchange that a step waits for
  std::vector<std::vector<std::vector<int64_t>>> freedBy_; // steps that each exchange waits for
  std::vector<std::vector<double>> begins_, done_;         // of exchanges
  std::map<Message, std::vector<double>> ready_;           // when each end of a message has begun
};

Run::Run(const std::vector<std::vector<ChunkPasses>> &passes, Order order, int64_t microBatches, double message)
    : passes_(passes), stages_(int64_t(passes.size())), chunks_(int64_t(passes.front().size())), message_(message) {
  for (int64_t stage = 0; stage < stages_; ++stage)
    steps_.push_back(stepsOf(nameOf(order), microBatches, chunks_, stage, stages_));
  ended_.resize(stages_), begins_.resize(stages_), done_.resize(stages_), neededBy_.resize(stages_), freedBy_.resize(stages_);
  findExchanges(order == Order::ZeroBubble);
}

void Run::findExchanges(bool splits) {
  auto columns = columnsOf(steps_, chunks_);
  if (!columns)
    return;
  // Holds a micro-batch's slot from its forward on, and the gradient that comes back from its backward on where gradients of
  // weights are apart (passes/5-schedule/AssignPools).
  std::set<StepKind> whole{StepKind::F, StepKind::B}, back = whole;
  if (splits)
    whole.insert(StepKind::W), back = {StepKind::B, StepKind::W};
  std::vector<std::vector<Slots>> forward(stages_), backward(stages_);
  for (int64_t stage = 0; stage < stages_; ++stage)
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      forward[stage].push_back(assignSlots(steps_[stage], chunk, whole));
      backward[stage].push_back(assignSlots(steps_[stage], chunk, back));
    }
  auto freedBy = [&](size_t stage, size_t i) {
    const Step &step = steps_[stage][i];
    const Slots &slots = (step.kind == StepKind::F ? forward : backward)[stage][step.chunk];
    auto before = slots.freedBy.find(step.microBatch);
    return before == slots.freedBy.end() ? -1 : before->second;
  };
  exchanges_ = exchangesOf(steps_, *columns, chunks_, freedBy, [](size_t, size_t, size_t) { return true; });
  for (int64_t stage = 0; stage < stages_; ++stage) {
    freedBy_[stage].resize(exchanges_[stage].size());
    for (size_t e = 0; e < exchanges_[stage].size(); ++e)
      for (const MessageEnd &end : exchanges_[stage][e].ends) {
        freedBy_[stage][e].push_back(end.sends ? int64_t(end.step) : freedBy(stage, end.step));
        if (!end.sends)
          neededBy_[stage][end.step] = e;
      }
  }
}

Message Run::messageOf(size_t stage, const MessageEnd &end) const {
  const Step &step = steps_[stage][end.step];
  int64_t here = step.chunk * stages_ + int64_t(stage);
  return {step.kind, end.sends ? here + (step.kind == StepKind::F ? 1 : -1) : here, step.microBatch};
}

// Runs the steps of a stage that wait for nothing any more.
bool Run::advanceSteps(size_t stage) {
  std::vector<double> &ended = ended_[stage];
  const size_t before = ended.size();
  for (; ended.size() < steps_[stage].size();) {
    double begin = ended.empty() ? 0 : ended.back();
    if (auto exchange = neededBy_[stage].find(ended.size()); exchange != neededBy_[stage].end()) {
      if (exchange->second >= done_[stage].size())
        break;
      begin = std::max(begin, done_[stage][exchange->second]);
    }
    const Step &step = steps_[stage][ended.size()];
    const ChunkPasses &own = passes_[stage][step.chunk];
    ended.push_back(begin + (step.kind == StepKind::F ? own.forward : step.kind == StepKind::B ? own.backward : own.weights));
  }
  return ended.size() > before;
}

// Begins the next exchange of a stage, if all that it waits for has ended.
bool Run::beginExchange(size_t stage) {
  const size_t next = begins_[stage].size();
  if (next > done_[stage].size() || next >= exchanges_[stage].size())
    return false;
  double begin = next ? done_[stage][next - 1] : 0;
  for (int64_t step : freedBy_[stage][next]) {
    if (step >= int64_t(ended_[stage].size()))
      return false;
    begin = std::max(begin, step < 0 ? 0 : ended_[stage][step]);
  }
  begins_[stage].push_back(begin);
  for (const MessageEnd &end : exchanges_[stage][next].ends)
    ready_[messageOf(stage, end)].push_back(begin);
  return true;
}

// Ends the exchange that a stage has begun, if those of the other ends have begun, too.
bool Run::endExchange(size_t stage) {
  const size_t at = done_[stage].size();
  if (at >= begins_[stage].size())
    return false;
  double ended = begins_[stage][at];
  for (const MessageEnd &end : exchanges_[stage][at].ends) {
    const std::vector<double> &both = ready_[messageOf(stage, end)];
    if (both.size() < 2)
      return false;
    ended = std::max(ended, std::max(both[0], both[1]) + message_);
  }
  done_[stage].push_back(ended);
  return true;
}

std::vector<double> Run::ends() {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < size_t(stages_); ++stage) {
      moved |= advanceSteps(stage);
      if (!exchanges_.empty()) {
        moved |= beginExchange(stage);
        moved |= endExchange(stage);
      }
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
  constexpr int64_t most = 30'000; // stages x micro-batches that take no time worth telling
  const int64_t few = std::min(microBatches, 8 * p + microBatches % p);
  if (p * few > most)
    return runSchedule(passes, order, microBatches, message);
  std::vector<double> ends = Run(passes, order, few, message).ends();
  if (few == microBatches)
    return ends;
  std::vector<double> before = Run(passes, order, few - p, message).ends();
  for (int64_t stage = 0; stage < p; ++stage)
    ends[stage] += (ends[stage] - before[stage]) * double((microBatches - few) / p);
  return ends;
}
