#include "lib/cost/PlanStep.h"

#include "lib/cost/Collectives.h"
#include "lib/cost/PlanPipeline.h"

#include <algorithm>
#include <map>
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

// Returns the seconds in which one work adds the gradients that data-parallel ranks have scattered to its sums.
double additionTime(const Machine &machine, const Work &work) {
  double time = 0;
  for (const Collective &c : work.collectives)
    if (c.role == Role::Data && c.kind == Transfer::ReduceScatter)
      time += elementwiseTime(machine, 3 * c.bytes / double(c.group.size), 1);
  return time;
}

// Adds to the passes of our own plans what each micro-batch waits for: a part's weights are gathered while the part before it
// computes, and a layer's gradients are scattered while the next one does (passes/5-schedule/OverlapShards); those of what
// stands around the layers are scattered at the end. All that goes on one stream with the collectives inside of a layer.
void addShards(const Table &table, const Machine &machine, WorkTimes &times, Stage &stage) {
  const bool overlaps = machine.choices.overlap, hides = overlaps && (machine.choices.tensorOverlap || machine.choices.expertOverlap);
  size_t begin = 0;
  for (size_t size : stage.chunks) {
    // Leaves out what all layers read: it stands before the layers in both passes, where nothing is on its way.
    std::vector<Stage::PartPass *> parts;
    for (size_t end = begin + size; begin < end; ++begin)
      if (stage.parts[begin].part != &table.shared)
        parts.push_back(&stage.parts[begin]);
    const size_t count = parts.size();
    for (bool isForward : {true, false}) {
      auto work = isForward ? &Part::forward : &Part::backward;
      auto at = [&](size_t i) -> Stage::PartPass & { return *parts[isForward ? i : count - 1 - i]; };
      auto gatherOf = [&](size_t i) { return dataTime(machine, at(i).part->*work, Transfer::AllGather); };
      // Returns the seconds in which the weights of the next part that has some are gathered, ahead of it. Those of the head
      // have the last norm before them alone.
      auto isHead = [&](size_t i) { return isForward && i > 0 && at(i).part == &table.after; };
      auto nextGather = [&](size_t from) {
        for (; from < count && !isHead(from); ++from)
          if (double seconds = gatherOf(from); seconds > 0)
            return seconds;
        return 0.0;
      };
      // Holds seconds that a part waits for its weights, and of gradients on their way, those of weights apart from the rest
      // where a schedule splits them.
      double late = nextGather(0), scattered = 0, ofWeights = 0;
      auto scatterOf = [&](const Work &made) {
        return dataTime(machine, made, Transfer::ReduceScatter) + dataTime(machine, made, Transfer::AllReduce);
      };
      // Holds what work waits for collectives that are busy when it begins, when it ends, and when these are done.
      struct Beside {
        double added, end, sent;
        // Returns what a wait for `seconds` from the beginning takes after it.
        double until(double seconds) const { return std::max(0.0, seconds - end); }
      };
      auto beside = [&](const Work &one, double alone, double busy, double ahead) -> Beside {
        if (!overlaps)
          return {0, 0, busy + ahead};
        if (hides || busy + ahead <= 0) // what hides the collectives of a layer hides these alike
          return {0, alone, busy + ahead};
        const WorkEnds ends = times.of(one, busy, ahead);
        return {ends.compute - times.of(one, 0).compute, ends.compute, ends.stream};
      };
      // Returns the seconds in which gradients that have arrived are added to their sums.
      auto additionOf = [&](const Work &one) { return overlaps && !hides ? additionTime(machine, one) : 0; };
      for (size_t i = 0; i < count; ++i) {
        Stage::PartPass &each = at(i);
        PassTime &pass = isForward ? each.forward : each.backward;
        const double alone = pass.exposed.sum();
        const bool hasWeights = gatherOf(i) > 0;
        // Computes nothing beside what is on its way where a part has nothing.
        if (alone <= 0 && !hasWeights && i + 1 < count)
          continue;
        const double ahead = hasWeights ? nextGather(i + 1) : 0, arrives = std::exchange(scattered, 0);
        const Beside own = beside(each.part->*work, alone, arrives, ahead);
        // Adds its own gradients behind the part after it, where those of the part before are not in their place.
        const double later = isForward || arrives > 0 ? 0 : std::min(own.end, additionOf(each.part->backward));
        double left = own.until(own.sent + later), added = own.added;
        if (arrives > 0) {
          // Adds what has been scattered before the gradients of this part are, in the same place, while weights are gathered.
          const double waited = own.until(arrives + additionOf(each.part->backward));
          added += waited, left = std::max(0.0, left - waited);
        }
        double waits = added + (isHead(i) ? gatherOf(i) : 0) + (hasWeights ? late : 0), waitsOfWeights = 0;
        late = left + (hasWeights ? 0 : std::max(0.0, late - (overlaps ? alone : 0)));
        if (!isForward) {
          // Waits for what is on its way when a layer has been computed: its own sum takes the same place.
          const Beside weights = beside(each.part->weightGradients, pass.weights, ofWeights, 0);
          waitsOfWeights = weights.added + (ofWeights > 0 ? weights.until(ofWeights + additionOf(each.part->weightGradients)) : 0);
          scattered += scatterOf(each.part->backward);
          ofWeights = scatterOf(each.part->weightGradients);
        }
        if (each.part == &table.before || each.part == &table.after || i + 1 == count) {
          waits += std::exchange(scattered, 0);
          waitsOfWeights += std::exchange(ofWeights, 0);
        }
        if (!isForward) {
          waits += waitsOfWeights;
          pass.weights += waitsOfWeights;
          stage.backward.weights += waitsOfWeights;
        }
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

// Holds the gradients of one state in one layer: their sum over ranks, and when the last backward has made them.
struct Gradients {
  const Collective *sum;
  double made;
};

// Returns what a stage sums over ranks once a step by the state that it is of: the layers of a kind in one chunk have their
// states side by side, the first layer in front, which is the last to be made.
std::vector<std::vector<Gradients>> gradientsOf(const Stage &stage, const Choices &choices, WorkTimes &times, double &now) {
  // Runs the last micro-batches, one for each stage, through a chunk before any of them through the next one.
  const double others = double(std::min(choices.mesh.pp, choices.microBatches) - 1);
  std::vector<std::vector<Gradients>> states;
  size_t end = stage.parts.size();
  for (size_t chunk = stage.chunks.size(); chunk-- > 0; end -= stage.chunks[chunk]) {
    std::map<std::pair<const Part *, size_t>, size_t> known; // place in `states`, by part and number of the sum
    for (size_t i = end; chunk + 1 < stage.chunks.size() && i-- > end - stage.chunks[chunk];)
      now += others * stage.parts[i].backward.exposed.sum();
    for (size_t i = end; i-- > end - stage.chunks[chunk];) {
      const Stage::PartPass &each = stage.parts[i];
      // Makes those of a layer one after the other, behind what it computes again. A backward that is split has made none when
      // its weights' turn comes.
      const bool isSplit = choices.order == Order::ZeroBubble;
      const double seconds = isSplit ? each.backward.weights : each.backward.exposed.sum();
      const double before = isSplit ? 0 : times.shareBeforeGradients(each.part->backward);
      double all = 0, some = 0;
      auto isSum = [](const Collective &c) { return c.role == Role::Data && c.kind != Transfer::AllGather; };
      for (const Collective &c : each.part->update.collectives)
        all += isSum(c) ? c.bytes : 0;
      for (size_t number = 0; number < each.part->update.collectives.size(); ++number) {
        const Collective &c = each.part->update.collectives[number];
        if (!isSum(c))
          continue;
        some += c.bytes;
        auto [at, isNew] = known.try_emplace({each.part, number}, states.size());
        if (isNew)
          states.emplace_back();
        states[at->second].insert(states[at->second].begin(), {&c, now + seconds * (before + (1 - before) * some / all)});
      }
      now += seconds;
    }
  }
  return states;
}

// Returns the seconds from the end of the last backward to that of the sums of a step's gradients, which start in buckets of
// 25 MiB at least (passes/5-schedule/BucketReductions), or as the states of ZeRO lie, as soon as backward has made them. Buckets
// are of states in the order in which the last of their layers is made.
double sumsBehind(const Machine &machine, WorkTimes &times, const Stage &stage) {
  constexpr double bucket = 25 << 20;
  double now = 0, end = 0;
  auto states = gradientsOf(stage, machine.choices, times, now);
  std::stable_sort(states.begin(), states.end(), [](const auto &x, const auto &y) { return x.front().made < y.front().made; });
  std::vector<std::pair<double, Collective>> sums; // by when they can start
  std::map<std::pair<int64_t, int64_t>, size_t> open;
  for (const auto &state : states)
    for (const Gradients &layer : state) {
      const Collective &c = *layer.sum;
      auto at = open.find({c.group.size, c.group.stride});
      if (c.kind == Transfer::ReduceScatter || at == open.end() || sums[at->second].second.bytes >= bucket) {
        if (c.kind != Transfer::ReduceScatter)
          open[{c.group.size, c.group.stride}] = sums.size();
        sums.emplace_back(layer.made, c);
        continue;
      }
      sums[at->second].first = std::max(sums[at->second].first, layer.made);
      sums[at->second].second.bytes += c.bytes;
    }
  std::stable_sort(sums.begin(), sums.end(), [](const auto &x, const auto &y) { return x.first < y.first; });
  for (const auto &[made, sum] : sums)
    end = std::max(end, machine.choices.overlap ? made : now) + timeOf(machine, sum);
  return std::max(0.0, end - now);
}

// Returns the seconds of the update of a stage's weights, of whose kernels one is for all layers of a kind, and of what a step
// begins with.
double updateTime(const Table &table, const Machine &machine, const Stage &stage) {
  const Choices &choices = machine.choices;
  if (choices.offload == Offload::Optimizer || choices.moments != Number::Fp32)
    return optimizerTime(machine, stage);
  double bytes = table.step.bytes, operations = table.step.operations, calls = 0;
  // Counts the layers of each kind in a chunk, whose states lie side by side: one kernel is for all, and one sum.
  std::map<std::pair<size_t, const Part *>, double> together;
  size_t next = 0;
  for (size_t chunk = 0; chunk < stage.chunks.size(); ++chunk)
    for (size_t end = next + stage.chunks[chunk]; next < end; ++next) {
      const Part *part = stage.parts[next].part;
      bytes += part->update.bytes;
      if (!writesFirst(choices)) // sums of gradients are zeroed
        bytes += part->states.gradients;
      double &layers = together[{chunk, part}];
      operations += layers++ ? 0 : part->update.operations;
    }
  for (const auto &[of, layers] : together)
    for (Collective c : of.second->update.collectives)
      if (c.role != Role::Data) {
        c.bytes *= layers;
        calls += timeOf(machine, c);
      }
  for (const Collective &c : table.step.collectives)
    calls += timeOf(machine, c);
  return elementwiseTime(machine, bytes, operations) + calls;
}

} // namespace

void llmc::cost::composePlan(const Table &table, const Machine &machine, std::vector<Stage> &stages, StepTime &step, bool isBound) {
  WorkTimes times(table, machine);
  for (Stage &stage : stages)
    addShards(table, machine, times, stage);
  const Choices &choices = machine.choices;
  const Stage &longest = *std::max_element(stages.begin(), stages.end(), [](const Stage &a, const Stage &b) { return a.microBatch() < b.microBatch(); });
  double m = double(choices.microBatches), all = 0;
  const double message = messageOf(table, machine);
  auto passes = passesOf(stages, choices.order, true);
  std::vector<double> ends = isBound ? leastEnds(passes, choices.order, choices.microBatches, message)
                                     : runExchanges(passes, choices.order, choices.microBatches, message);
  double end = *std::max_element(ends.begin(), ends.end()), summed = 0, gathered = 0, optimizer = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    all += stages[i].microBatch();
    summed = std::max(summed, ends[i] + sumsBehind(machine, times, stages[i]));
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
