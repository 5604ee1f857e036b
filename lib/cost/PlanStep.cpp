#include "lib/cost/PlanStep.h"

#include "lib/cost/Collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

using namespace llmc;
using namespace llmc::cost;

namespace {

// Returns the seconds of the collectives of data-parallel ranks in one work.
double dataTime(const Machine &machine, const Work &work, Transfer kind) {
  double time = 0;
  for (const Collective &c : work.collectives)
    if (c.role == Role::Data && c.kind == kind)
      time += timeOf(machine, c);
  return time;
}

// Adds to the passes of our own plans what each micro-batch waits for: a part's weights are gathered while the part before it
// computes, and a layer's gradients are scattered while the next one does (passes/5-schedule/OverlapShards); those of what
// stands around the layers are scattered at the end. All that goes on one stream with the collectives inside of a layer.
void addShards(const Table &table, const Machine &machine, WorkTimes &times, Stage &stage) {
  const bool overlaps = machine.choices.overlap, hides = overlaps && (machine.choices.tensorOverlap || machine.choices.expertOverlap);
  size_t begin = 0;
  for (size_t count : stage.chunks) {
    auto parts = stage.parts.begin() + std::ptrdiff_t(begin);
    begin += count;
    for (bool isForward : {true, false}) {
      auto work = isForward ? &Part::forward : &Part::backward;
      auto at = [&](size_t i) -> Stage::PartPass & { return parts[std::ptrdiff_t(isForward ? i : count - 1 - i)]; };
      auto gatherOf = [&](size_t i) { return i < count ? dataTime(machine, at(i).part->*work, Transfer::AllGather) : 0; };
      double late = gatherOf(0), scattered = 0; // seconds that a part waits for its weights; of gradients on their way
      for (size_t i = 0; i < count; ++i) {
        Stage::PartPass &each = at(i);
        PassTime &pass = isForward ? each.forward : each.backward;
        double alone = pass.exposed.sum(), busy = std::exchange(scattered, 0) + gatherOf(i + 1), waits = late;
        if (busy > 0 && hides) { // what hides the collectives of a layer hides these alike
          late = std::max(0.0, busy - alone);
        } else if (busy > 0 && overlaps) {
          waits += times.of(each.part->*work, busy) - times.of(each.part->*work, 0);
          late = std::max(0.0, busy - times.of(each.part->*work, busy));
        } else {
          late = busy;
        }
        if (!isForward)
          for (Work Part::*made : {&Part::backward, &Part::weightGradients})
            scattered += dataTime(machine, each.part->*made, Transfer::ReduceScatter) + dataTime(machine, each.part->*made, Transfer::AllReduce);
        if (each.part == &table.before || each.part == &table.after || i + 1 == count)
          waits += std::exchange(scattered, 0);
        if (i + 1 == count)
          waits += late;
        pass.exposed.dp += waits;
        (isForward ? stage.forward : stage.backward).exposed.dp += pass.exposed.sum() - alone;
      }
    }
  }
  stage.time.forward = stage.forward.exposed;
  stage.time.backward = stage.backward.exposed;
}

// Returns the seconds from the end of the last backward to that of the sums of a step's gradients, which start in buckets of
// 25 MiB at least (passes/5-schedule/BucketReductions), or as the states of ZeRO lie, as soon as backward has made them.
double sumsBehind(const Machine &machine, const Stage &stage) {
  constexpr double bucket = 25 << 20;
  double now = 0, end = 0;
  std::map<std::pair<int64_t, int64_t>, Collective> open;
  auto send = [&](const Collective &c) { end = std::max(end, machine.choices.overlap ? now : 0.0) + timeOf(machine, c); };
  for (size_t i = stage.parts.size(); i-- > 0;) {
    now += stage.parts[i].backward.exposed.sum();
    for (const Collective &c : stage.parts[i].part->update.collectives) {
      if (c.role != Role::Data || c.kind == Transfer::AllGather)
        continue;
      if (c.kind == Transfer::ReduceScatter) {
        send(c);
        continue;
      }
      auto [at, isNew] = open.try_emplace({c.group.size, c.group.stride}, c);
      if (!isNew)
        at->second.bytes += c.bytes;
      if (at->second.bytes >= bucket) {
        send(at->second);
        open.erase(at);
      }
    }
  }
  for (auto &[group, c] : open)
    send(c);
  return std::max(0.0, end - now);
}

// Returns the seconds of the update of a stage's weights, of whose kernels one is for all layers of a kind.
double updateTime(const Table &table, const Machine &machine, const Stage &stage) {
  const Choices &choices = machine.choices;
  if (choices.offload == Offload::Optimizer || choices.moments != Number::Fp32)
    return optimizerTime(machine, stage);
  double bytes = table.step.bytes, operations = table.step.operations, calls = 0;
  std::set<const Part *> kinds;
  for (const auto &[part, forward, backward] : stage.parts) {
    bytes += part->update.bytes;
    bool isNew = kinds.insert(part).second;
    operations += isNew ? part->update.operations : 0;
    for (const Collective &c : part->update.collectives)
      if (c.role != Role::Data)
        calls += timeOf(machine, c);
  }
  for (const Collective &c : table.step.collectives)
    calls += timeOf(machine, c);
  return elementwiseTime(machine, bytes, operations) + calls;
}

} // namespace

void llmc::cost::composePlan(const Table &table, const Machine &machine, std::vector<Stage> &stages, StepTime &step) {
  WorkTimes times(table, machine);
  for (Stage &stage : stages)
    addShards(table, machine, times, stage);
  const Choices &choices = machine.choices;
  const Stage &longest = *std::max_element(stages.begin(), stages.end(), [](const Stage &a, const Stage &b) { return a.microBatch() < b.microBatch(); });
  double m = double(choices.microBatches), all = 0;
  std::vector<double> ends = runSchedule(passesOf(stages, choices.order, true), choices.order, choices.microBatches, messageOf(table, machine));
  double end = *std::max_element(ends.begin(), ends.end()), summed = 0, gathered = 0, optimizer = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    all += stages[i].microBatch();
    summed = std::max(summed, ends[i] + sumsBehind(machine, stages[i]));
    double gathers = 0;
    for (const auto &[part, forward, backward] : stages[i].parts)
      gathers += dataTime(machine, part->update, Transfer::AllGather);
    gathered = std::max(gathered, gathers);
    optimizer = std::max(optimizer, updateTime(table, machine, stages[i]));
  }
  step.parts += longest.forward.exposed * m;
  step.parts += longest.backward.exposed * m;
  step.parts.bubble = std::max(0.0, end - step.parts.sum());
  step.bubbleFraction = end > 0 ? std::max(0.0, 1 - m * all / (double(stages.size()) * end)) : 0;
  step.parts.dp += summed - end + gathered;
  step.parts.optimizer = optimizer;
  step.parts = step.parts * machine.pace(double(choices.mesh.ranksOfStage() * choices.mesh.pp));
}
