#include "lib/cost/Memory.h"

#include "lib/cost/ChunkShape.h"
#include "lib/cost/Parts.h"
#include "lib/cost/Pipeline.h"
#include "lib/cost/Stages.h"
#include "lib/cost/Step.h"

#include <algorithm>
#include <utility>

using namespace llmc;
using namespace llmc::cost;

double llmc::cost::keptBytes(const Machine &machine, const Part &layer) {
  const Choices &choices = machine.choices;
  if (layer.kept.sum() > 0)
    return layer.kept.sum();
  double bytes = layer.inputs + (choices.software == Profile::Eager ? layer.unfused : 0);
  // Keeps weights of attention as well where they reach memory and are not computed again: softmax and dropout, and
  // a mask of a byte.
  if (writesScores(choices.attention) && choices.recompute == Kept::All)
    for (const Attention &a : layer.forward.attentions)
      bytes += 5 * a.batch * a.heads * a.queries * a.keys;
  return choices.recompute == Kept::Full ? choices.recomputed * layer.carried + (1 - choices.recomputed) * bytes
                                         : bytes;
}

namespace {

// Returns the share of a state that each of the data-parallel ranks has.
double share(bool isCut, double elements, double experts, const Choices &choices) {
  if (!isCut)
    return elements + experts;
  const planfile::MeshSizes &mesh = choices.mesh;
  double etp = double(std::max<int64_t>(1, mesh.etp));
  double dense = double(mesh.dp * mesh.cp),
         expert = std::max(1.0, double(mesh.ranksOfStage()) / (double(mesh.ep) * etp));
  return elements / dense + experts / expert;
}

double bytesOf(const KeptBytes &kept, const Alive &alive) {
  return kept.toBackward * double(alive.toBackward) + kept.toWeights * double(alive.toWeights) +
         kept.fromBackward * double(alive.fromBackward);
}

// Adds up what the parts of each stage of our own plans have: states as they are cut, what slots of micro-batches keep, and
// the most that is alive beside these.
std::vector<MemoryParts> memoryOfPlan(const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  const int64_t p = choices.mesh.pp, v = choices.chunks;
  std::vector<MemoryParts> stages(p);
  std::vector<double> largest(p), updated(p);
  std::vector<std::pair<const Part *, const Part *>> ends(p * v); // of each chunk, in the order of the model
  const auto counts = countAlive(choices);
  const std::vector<std::vector<Alive>> &alive = *counts;
  visitParts(table, machine, [&](int64_t stage, const Part &part, int64_t chunk) {
    if (&part == &table.shared)
      return;
    MemoryParts &parts = stages[stage];
    auto &[first, last] = ends[chunk * p + stage];
    first = first ? first : &part;
    last = &part;
    const States &states = part.states;
    bool low = choices.moments != Number::Fp32, away = choices.offload == Offload::Optimizer;
    parts.weights += states.weights;
    parts.gradients += states.gradients;
    parts.communication += states.received;
    updated[stage] += states.updated;
    parts.masters += low || away ? 0 : states.masters;
    parts.optimizer += away ? 0 : states.moments * bytesOf(choices.moments) / 4;
    double kept = bytesOf(part.kept, alive[stage][chunk]);
    if (choices.offload == Offload::Activations) {
      largest[stage] = std::max(largest[stage], kept);
      parts.activations = std::min(parts.activations + kept, 2 * largest[stage]);
    } else {
      parts.activations += kept;
    }
  });
  std::vector<int64_t> layers = divideLayers(table, machine);
  bool isFirst = true;
  // Holds what a chunk sends on and back, and what it gets where no layer keeps that.
  for (int64_t at = 0; at < p * v; ++at) {
    auto [first, last] = ends[at];
    double bytes = 0;
    if (at > 0) // what is kept is an activation, of which as much comes back
      bytes += table.sentBackward + table.sentForward - (first->keepsInput ? table.sentBackward : 0);
    // Keeps the gradient that an embedding alone gets for those of its weights, which a schedule makes apart.
    const bool keepsGradient = last->keepsGradient || (last == &table.before && last->kept.fromBackward > 0);
    if (at + 1 < p * v)
      bytes += table.sentForward + (keepsGradient ? 0 : table.sentBackward);
    stages[at % p].activations += bytes * double(alive[at % p][at / p].toBackward);
    // Computes it in every chunk, of which the first alone keeps it where nothing decides what is computed again.
    if (layers[at] > 0 && (choices.recompute != Kept::All || std::exchange(isFirst, false)))
      stages[at % p].activations += bytesOf(table.shared.kept, alive[at % p][at / p]);
  }
  // Shares what is alive only while a chunk computes: chunks of a stage do so one after the other.
  std::vector<ChunkShape> shapes = table.workspace.empty() ? std::vector<ChunkShape>() : shapesOf(table, machine);
  std::vector<bool> overSlots(p, true);
  for (size_t at = 0; at < shapes.size(); ++at)
    if (auto found = table.workspace.find(shapes[at]); found != table.workspace.end()) {
      stages[at % p].workspace = std::max(stages[at % p].workspace, found->second.passes);
      overSlots[at % p] = overSlots[at % p] && found->second.overSlots;
      // Adds what is no part of the weights of the layers that the shape has.
      double others = found->second.update - (shapes[at].hasFirst ? table.before.states.updated : 0) -
                      (shapes[at].hasLast ? table.after.states.updated : 0);
      for (int kind : shapes[at].kinds)
        others -= table.kinds[kind].states.updated;
      updated[at % p] += std::max(0.0, others);
    }
  for (int64_t i = 0; i < p; ++i) {
    MemoryParts &stage = stages[i];
    if (table.workspace.empty())
      stage.workspace = i + 1 == p ? table.leastOfLast : table.leastWorkspace;
    double covered = stage.workspace + (choices.zero == 1 ? stage.gradients : 0) + (overSlots[i] ? stage.activations : 0);
    stage.workspace += std::max(0.0, updated[i] - covered);
    stage.gradients += table.stepStates.gradients;
  }
  return stages;
}

} // namespace

std::vector<MemoryParts> llmc::cost::predictMemory(const Table &table, const Machine &machine) {
  if (table.isOfPlan)
    return memoryOfPlan(table, machine);
  const Choices &choices = machine.choices;
  int64_t p = choices.mesh.pp, v = choices.chunks, m = choices.microBatches;
  std::vector<int64_t> layers = divideLayers(table, machine);
  std::vector<MemoryParts> stages(p);
  size_t next = 0;
  std::vector<Parameters> parameters(p);
  std::vector<double> kept(p), largest(p), largestPart(p), largestWeight(p), largestKept(p);
  for (int64_t chunk = 0; chunk < p * v; ++chunk) {
    int64_t stage = chunk % p;
    auto add = [&](const Part &part) {
      parameters[stage].dense += part.parameters.dense;
      parameters[stage].expert += part.parameters.expert;
      largestPart[stage] = std::max(largestPart[stage], part.parameters.all());
    };
    // Counts all that the stages behind work on (Narayanan et al., 2021, section 2.2; Korthikanti et al., 2022, section 4.2.3);
    // where stages interleave, by chunk.
    double alive = choices.order == Order::GPipe ? double(m) : double(std::min(m, p - stage));
    if (v > 1)
      alive = double(std::min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1)) / double(v);
    if (chunk == 0)
      add(table.before);
    for (int64_t i = 0; i < layers[chunk]; ++i, ++next) {
      const Part &layer = table.kinds[table.layers[next]];
      add(layer);
      for (const Product &product : layer.forward.products)
        if (!product.experts)
          largestWeight[stage] = std::max(largestWeight[stage], product.columns * product.depth);
      kept[stage] += keptBytes(machine, layer) * alive;
      largestKept[stage] = std::max(largestKept[stage], keptBytes(machine, layer));
      // Holds one layer whole while it is computed again.
      if (choices.recompute == Kept::Full) {
        Machine all = machine;
        all.choices.recompute = Kept::All;
        largest[stage] = std::max(largest[stage], keptBytes(all, layer));
      }
    }
    if (chunk == p * v - 1) {
      add(table.after);
      if (p > 1)
        parameters[stage].dense += table.tied;
      // Holds the logits and their gradient, and a copy in fp32 where kernels are not fused with the loss.
      stages[stage].logits = table.after.logits *
                             (2 * choices.elementBytes() + (choices.software == Profile::Eager ? 4 : 0));
      kept[stage] += table.after.inputs;
    }
  }
  for (int64_t i = 0; i < p; ++i) {
    MemoryParts &stage = stages[i];
    double dense = parameters[i].dense, expert = parameters[i].expert, weight = choices.elementBytes();
    stage.weights = weight * share(choices.zero == 3, dense, expert, choices);
    bool low = choices.moments != Number::Fp32;
    stage.masters = low || choices.precision == Number::Fp32 ? 0 : 4 * share(choices.zero >= 1, dense, expert, choices);
    stage.optimizer = 2 * bytesOf(choices.moments) * share(choices.zero >= 1, dense, expert, choices);
    if (choices.offload == Offload::Optimizer)
      stage.masters = stage.optimizer = 0;
    stage.gradients = bytesOf(choices.gradients) * share(choices.zero >= 2, dense, expert, choices);
    if (choices.zero == 3)
      stage.gathered = 2 * largestPart[i] * weight;
    // Holds two layers of what lies at the host: one that is used and one on its way.
    stage.activations =
        (choices.offload == Offload::Activations ? std::min(kept[i], 2 * largestKept[i]) : kept[i]) + largest[i];
    // Holds four activations of a layer with gradients, whole where tp ranks gather them; and of the largest weight its
    // fp32 gradient and a copy in 16 bits.
    stage.workspace = 4 * table.tokens / double(choices.mesh.cp) * table.width * weight + 6 * largestWeight[i];
    if (choices.software == Profile::Eager) {
      // Copies sums of gradients in 16 bits to fp32 for the update.
      if (bytesOf(choices.gradients) < 4)
        stage.gradients += 4 * share(choices.zero >= 1, dense, expert, choices);
      // Loses what an allocator without expandable segments cannot use of what it reserves: 22 %, which fits the peaks
      // that nanotron and BigScience report (bench/cost).
      stage.fragmentation = 0.22 * stage.sum();
    }
  }
  return stages;
}

// Sets the traffic of data-parallel ranks of a part to that of a stage of ZeRO, and the bytes of an update to what it reads and
// writes at least: sums of gradients, masters and moments.
static void setTraffic(Part &part, const Choices &choices) {
  auto [dense, expert] = dataGroups(choices);
  for (Work *work : {&part.forward, &part.backward, &part.weightGradients})
    std::erase_if(work->collectives, [](const Collective &c) { return c.role == Role::Data; });
  part.update = {};
  const bool isOne = dense.size == expert.size && dense.stride == expert.stride; // of ranks, to which one message goes
  auto send = [&, &dense = dense, &expert = expert](Work &work, Transfer kind, double bytes) {
    for (auto [group, elements] : {std::pair(dense, isOne ? part.parameters.all() : part.parameters.dense),
                                   {expert, isOne ? 0 : part.parameters.expert}})
      if (group.size > 1 && elements > 0)
        work.collectives.push_back({kind, Role::Data, group, elements * bytes});
  };
  const double weight = choices.elementBytes(), reduced = bytesOf(choices.reduced);
  if (choices.zero == 3)
    send(part.forward, Transfer::AllGather, weight), send(part.backward, Transfer::AllGather, weight);
  if (choices.zero >= 2)
    send(part.backward, Transfer::ReduceScatter, reduced);
  else
    send(part.update, choices.zero == 1 ? Transfer::ReduceScatter : Transfer::AllReduce, reduced);
  if (choices.zero == 1 || choices.zero == 2)
    send(part.update, Transfer::AllGather, weight);
  double elements = share(choices.zero >= 1, part.parameters.dense, part.parameters.expert, choices);
  part.update.bytes = elements * (bytesOf(choices.gradients) + 2 * (8 + (choices.precision == Number::Fp32 ? 0 : 4)) + weight);
}

Table llmc::cost::withStates(const Table &table, const Choices &choices, bool hasWork) {
  auto partOf = [&](const Part &part) {
    Part out;
    if (hasWork)
      out = part;
    out.parameters = part.parameters;
    out.kept = part.kept;
    out.keepsInput = part.keepsInput, out.keepsGradient = part.keepsGradient;
    double dense = part.parameters.dense, expert = part.parameters.expert;
    out.states = {};
    out.states.weights = choices.elementBytes() * share(choices.zero == 3, dense, expert, choices);
    out.states.gradients = bytesOf(choices.gradients) * share(choices.zero >= 2, dense, expert, choices);
    out.states.masters = choices.precision == Number::Fp32 ? 0 : 4 * share(choices.zero >= 1, dense, expert, choices);
    out.states.moments = 8 * share(choices.zero >= 1, dense, expert, choices);
    if (hasWork)
      setTraffic(out, choices);
    return out;
  };
  Table out;
  out.before = partOf(table.before), out.after = partOf(table.after), out.shared = partOf(table.shared);
  for (const Part &kind : table.kinds)
    out.kinds.push_back(partOf(kind));
  out.layers = table.layers;
  out.tied = table.tied, out.tokens = table.tokens, out.width = table.width, out.isOfPlan = table.isOfPlan;
  out.copies = table.copies, out.experts = table.experts;
  out.sentForward = table.sentForward, out.sentBackward = table.sentBackward;
  // Has the logits while the loss is computed, and where ranks share out weights those of one layer.
  double logits = 0, gathered = 0;
  for (const Product &product : table.after.forward.products)
    logits = std::max(logits, product.rows * product.columns * product.batch * choices.elementBytes());
  for (const Part &kind : table.kinds)
    gathered = std::max(gathered, choices.zero == 3 ? kind.parameters.all() * choices.elementBytes() : 0);
  out.leastWorkspace = gathered, out.leastOfLast = std::max(gathered, logits);
  return out;
}
