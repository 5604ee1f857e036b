#include "lib/cost/Stages.h"

#include "lib/cost/Collectives.h"
#include "lib/cost/Memory.h"

#include <algorithm>
#include <cmath>
#include <utility>

using namespace llmc;
using namespace llmc::cost;

namespace {

// Prices the parts of one run.
class Pricer {
public:
  Pricer(const Table &table, const Machine &machine) : table_(table), m_(machine) {}

  // Holds the seconds of each product and attention of a work.
  struct ComputeTimes {
    std::vector<double> products, attentions;
  };
  ComputeTimes computeTimes(const Work &work, bool isPadded) const;
  WorkEnds addExposed(const Work &work, const std::vector<Entry> &order, const ComputeTimes &times, double sent, double ahead, TimeParts &exposed) const;
  PartPrices::Of price(const Part &part, bool isLayer) const;

private:
  TimeParts followOthers(const Work &work, TimeParts &exposed) const;
  double timeOf(const Collective &collective) const;
  PassTime pass(const Work &work, bool backward, bool isLayer) const;

  const Table &table_;
  const Machine &m_;
};

// Rounds up to what stacks pad a vocabulary to, so that products of the head are aligned.
double padded(double size) { return size < 4096 ? size : std::ceil(size / 128) * 128; }

// Returns the part of a pass that waits for a collective; null for what is exchanged beside passes.
double *partOf(Role role, TimeParts &parts) {
  return role == Role::Tensor ? &parts.tp : role == Role::Context ? &parts.cp : role == Role::Expert ? &parts.ep : nullptr;
}

double Pricer::timeOf(const Collective &c) const {
  if (table_.isOfPlan && c.kind == Transfer::Shift)
    return messageTime(m_, c.group.stride, c.bytes);
  return c.role == Role::Expert && c.kind == Transfer::AllToAll ? exchangeTime(m_, c.group, c.bytes, table_.copies) : cost::timeOf(m_, c);
}

// Pads what no layer has, of other stacks.
Pricer::ComputeTimes Pricer::computeTimes(const Work &work, bool isPadded) const {
  ComputeTimes times;
  times.products.reserve(work.products.size());
  for (Product product : work.products) {
    if (isPadded)
      product.columns = padded(product.columns), product.depth = padded(product.depth);
    times.products.push_back(cost::timeOf(m_, product, isPadded));
  }
  for (const Attention &attention : work.attentions)
    times.attentions.push_back(cost::timeOf(m_, attention));
  return times;
}

// Adds what compute waits for collectives, which follow each other on a stream of their own that is busy until `sent`, and that
// gathers other weights for `ahead` seconds behind the last gather of the work. Returns when all have ended.
WorkEnds Pricer::addExposed(const Work &work, const std::vector<Entry> &order, const ComputeTimes &times, double sent, double ahead,
                            TimeParts &exposed) const {
  double now = 0;                 // when compute ends
  double began = 0, together = 0; // of shifts that follow each other: they are one message of so many bytes
  struct Pending {
    double end;
    size_t until;
    double *part;
  };
  std::vector<Pending> pending;
  auto isGather = [&](const Entry &entry) {
    return entry.kind == Entry::OfCollective && work.collectives[entry.index].role == Role::Data &&
           work.collectives[entry.index].kind == Transfer::AllGather;
  };
  size_t lastGather = order.size();
  while (ahead > 0 && lastGather > 0 && !isGather(order[lastGather - 1]))
    --lastGather; // one behind it
  if (ahead > 0 && lastGather == 0)
    sent += ahead;
  for (size_t i = 0; i <= order.size(); ++i) {
    std::erase_if(pending, [&](const Pending &one) {
      if (one.until > i)
        return false;
      *one.part += std::max(0.0, one.end - now);
      now = std::max(now, one.end);
      return true;
    });
    if (ahead > 0 && i > 0 && i == lastGather)
      sent = std::max(sent, now) + ahead;
    if (i == order.size())
      break;
    const Entry &entry = order[i];
    switch (entry.kind) {
    case Entry::OfProduct:
      now += times.products[entry.index];
      break;
    case Entry::OfAttention:
      now += times.attentions[entry.index];
      break;
    case Entry::OfKernel:
      now += elementwiseTime(m_, entry.bytes, 1);
      break;
    case Entry::OfCollective:
      if (const Collective &c = work.collectives[entry.index]; double *part = partOf(c.role, exposed)) {
        bool joins = c.kind == Transfer::Shift && i > 0 && order[i - 1].kind == Entry::OfCollective &&
                     work.collectives[order[i - 1].index].kind == Transfer::Shift;
        began = joins ? began : std::max(sent, now);
        together = (joins ? together : 0) + c.bytes;
        Collective whole = c;
        whole.bytes = c.kind == Transfer::Shift ? together : c.bytes;
        sent = began + timeOf(whole);
        pending.push_back({sent, entry.until, part});
      }
    }
  }
  return {now, sent};
}

PassTime Pricer::pass(const Work &work, bool backward, bool isLayer) const {
  const Choices &choices = m_.choices;
  PassTime time;
  const ComputeTimes times = computeTimes(work, !isLayer && !table_.isOfPlan);
  double products = 0, operations = work.operations;
  for (size_t i = 0; i < work.products.size(); ++i) {
    const Product &product = work.products[i];
    const double own = times.products[i];
    products += own;
    if (product.ofWeights)
      time.weights += own;
    operations -= double(product.merged - 1);
    // Launches a product for each expert, and every other time a copy: libraries of grouped products loop over experts
    // on several streams. In fp8 each has a cast of its own.
    if (product.experts && choices.software != Profile::Llmc)
      operations += double(product.experts) * (choices.precision == Number::Fp8 ? 2.5 : 1.5);
  }
  for (double own : times.attentions)
    time.attention += own;
  // Launches what one kernel of attention does as several: two products, softmax, dropout; scale, mask and casts.
  double launches = choices.attention == AttentionKernel::FusedSoftmax ? 3
                    : choices.attention == AttentionKernel::Unfused    ? 8
                                                                       : 0;
  operations += launches * (backward ? 2 : 1) * double(work.attentions.size());
  // Starts a kernel for each op of a framework that is no product; the kernels of our own plans have been found.
  double others = double(work.products.size()) + (table_.isOfPlan ? double(work.attentions.size() + work.collectives.size()) : 0);
  time.exposed.compute = products + time.attention + elementwiseTime(m_, work.bytes, std::max(0.0, work.operations - others));
  double &tp = time.exposed.tp, &cp = time.exposed.cp, &ep = time.exposed.ep;
  if (table_.isOfPlan) {
    addExposed(work, work.order, times, 0, 0, time.exposed);
  } else {
    for (const Collective &collective : work.collectives)
      if (double *part = partOf(collective.role, time.exposed))
        *part += timeOf(collective);
    // Hides what a ring of keys and values sends behind the attention of the keys that are there.
    cp = std::max(0.05 * cp, cp - time.attention);
  }
  // Leaves at least 0.3 exposed: the first and last pieces of each product have nothing to hide behind.
  if (choices.tensorOverlap)
    tp = std::max(0.3 * tp, tp - m_.constants.hiddenBehindProducts * products);
  if (choices.expertOverlap)
    ep = std::max(0.1 * ep, ep - 0.7 * time.exposed.compute);
  double captured = choices.cudaGraphs ? 0.5 : 1; // graphs of a part of each layer
  // Replays a step of our own plans as one graph: kernels follow each other without the host, as in a simulated plan.
  time.host = table_.isOfPlan ? 0 : operations * captured * m_.constants.hostOperation;
  // Waits for each of the two kernels of an operation: 30 us from the end of one to the start of the next.
  if (choices.launchBlocking)
    time.host += operations * 60e-6;
  return time;
}

// Takes from what a layer waits for collectives that behind which the layer before it computes; returns that.
TimeParts Pricer::followOthers(const Work &work, TimeParts &exposed) const {
  TimeParts one, two, hidden;
  if (work.ofTwo.empty() || m_.choices.tensorOverlap || m_.choices.expertOverlap)
    return hidden;
  const ComputeTimes times = computeTimes(work, /*isPadded=*/false);
  addExposed(work, work.order, times, 0, 0, one);
  addExposed(work, work.ofTwo, times, 0, 0, two);
  for (double TimeParts::*part : {&TimeParts::tp, &TimeParts::cp, &TimeParts::ep}) {
    hidden.*part = std::min(2 * one.*part - two.*part, exposed.*part); // less than 0 where it waits for the others instead
    exposed.*part -= hidden.*part;
  }
  return hidden;
}

PartPrices::Of Pricer::price(const Part &part, bool isLayer) const {
  PartPrices::Of time{pass(part.forward, false, isLayer), pass(part.backward, true, isLayer), {}};
  if (table_.isOfPlan) {
    time.alone = followOthers(part.backward, time.backward.exposed);
    PassTime ofWeights = pass(part.weightGradients, true, isLayer);
    time.backward += ofWeights;
    if (m_.choices.order == Order::ZeroBubble)
      time.backward.weights = ofWeights.exposed.sum();
    return time;
  }
  // Adds each gradient to its buffer: where products do not do it themselves, a kernel reads the new one, too.
  double gradient = bytesOf(m_.choices.gradients);
  double bytes = m_.choices.software == Profile::Eager ? 2 * gradient + 2 * m_.choices.elementBytes() : 2 * gradient;
  time.backward.exposed.compute += m_.memory(bytes * part.parameters.all());
  if (!isLayer)
    return time;
  if (m_.choices.recompute == Kept::Full)
    time.backward += pass(part.forward, false, isLayer) * m_.choices.recomputed;
  // Computes the core of attention again (Korthikanti et al., 2022, section 5).
  if (m_.choices.recompute == Kept::Selective)
    time.backward.exposed.compute += time.forward.attention;
  return time;
}

// Lets the host hold up a stage that computes faster than it launches: in a micro-batch, the longer of both counts.
void addHost(const Machine &machine, PassTime &forward, PassTime &backward) {
  if (machine.choices.launchBlocking) {
    for (PassTime *pass : {&forward, &backward})
      pass->exposed.host += pass->host;
    return;
  }
  double device = forward.exposed.sum() + backward.exposed.sum(), host = forward.host + backward.host;
  if (host <= device)
    return;
  // Gives each pass what the host takes for it, and at least what the device does.
  double first = std::clamp(forward.host, forward.exposed.sum(), host - backward.exposed.sum());
  backward.exposed.host += host - first - backward.exposed.sum();
  forward.exposed.host += first - forward.exposed.sum();
}

// Adds what moves activations to the host and back beyond the compute that hides it.
void addOffload(const Table &table, const Machine &machine, const std::vector<int64_t> &layers,
                std::vector<Stage> &stages) {
  if (machine.cluster.pcie <= 0)
    return;
  std::vector<double> bytes(stages.size());
  size_t next = 0;
  for (size_t chunk = 0; chunk < layers.size(); ++chunk)
    for (int64_t i = 0; i < layers[chunk]; ++i, ++next)
      bytes[chunk % stages.size()] += keptBytes(machine, table.kinds[table.layers[next]]);
  for (size_t i = 0; i < stages.size(); ++i)
    for (PassTime *pass : {&stages[i].forward, &stages[i].backward})
      pass->exposed.host += std::max(0.0, bytes[i] / machine.cluster.pcie - pass->exposed.sum());
}

} // namespace

PartPrices llmc::cost::priceParts(const Table &table, const Machine &machine) {
  Pricer pricer(table, machine);
  PartPrices prices{pricer.price(table.before, false), pricer.price(table.shared, false), pricer.price(table.after, false), {}};
  for (const Part &kind : table.kinds)
    prices.kinds.push_back(pricer.price(kind, true));
  return prices;
}

std::vector<Stage> llmc::cost::priceStages(const PartPrices &prices, const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  int64_t p = choices.mesh.pp, v = choices.chunks;
  std::vector<int64_t> layers = divideLayers(table, machine);
  std::vector<Stage> stages(p);
  size_t next = 0;
  for (int64_t chunk = 0; chunk < p * v; ++chunk) {
    Stage &stage = stages[chunk % p];
    stage.time.layers.push_back(layers[chunk]);
    auto add = [&](const PartPrices::Of &time, const Part &part) {
      stage.forward += time.forward;
      stage.backward += time.backward;
      stage.parameters.dense += part.parameters.dense;
      stage.parameters.expert += part.parameters.expert;
      stage.parts.push_back({&part, time.forward, time.backward});
      ++stage.chunks.back();
    };
    stage.chunks.push_back(0);
    if (chunk == 0)
      add(prices.before, table.before);
    if (table.isOfPlan && layers[chunk] > 0) {
      PartPrices::Of shared = prices.shared;
      // Computes it again in a backward, of chunks but the first, where nothing decides what is kept.
      if (choices.recompute == Kept::All && chunk > 0)
        shared.backward += shared.forward;
      add(shared, table.shared);
    }
    for (int64_t i = 0; i < layers[chunk]; ++i, ++next) {
      PartPrices::Of price = prices.kinds[table.layers[next]];
      if (i + 1 == layers[chunk]) // the first of a backward
        price.backward.exposed += price.alone;
      add(price, table.kinds[table.layers[next]]);
    }
    if (chunk == p * v - 1) {
      add(prices.after, table.after);
      if (p > 1)
        stage.parameters.dense += table.tied;
    }
  }
  if (choices.offload == Offload::Activations)
    addOffload(table, machine, layers, stages);
  for (Stage &stage : stages) {
    addHost(machine, stage.forward, stage.backward);
    stage.time.forward = stage.forward.exposed;
    stage.time.backward = stage.backward.exposed;
  }
  return stages;
}

WorkTimes::WorkTimes(const Table &table, const Machine &machine) : table_(table), machine_(machine) {}

WorkEnds WorkTimes::of(const Work &work, double busy, double ahead) {
  auto [at, isNew] = times_.try_emplace({&work, busy, ahead});
  if (isNew) {
    TimeParts exposed;
    const Pricer pricer(table_, machine_);
    at->second = pricer.addExposed(work, work.order, pricer.computeTimes(work, /*isPadded=*/false), busy, ahead, exposed);
  }
  return at->second;
}

double WorkTimes::shareBeforeGradients(const Work &work) {
  auto [at, isNew] = shares_.try_emplace(&work, 0);
  if (!isNew)
    return at->second;
  const Pricer::ComputeTimes times = Pricer(table_, machine_).computeTimes(work, /*isPadded=*/false);
  double now = 0, first = 0;
  bool isMade = false;
  for (const Entry &entry : work.order) {
    if (entry.kind == Entry::OfProduct && work.products[entry.index].ofWeights && !std::exchange(isMade, true))
      first = now;
    now += entry.kind == Entry::OfProduct     ? times.products[entry.index]
           : entry.kind == Entry::OfAttention ? times.attentions[entry.index]
           : entry.kind == Entry::OfKernel    ? elementwiseTime(machine_, entry.bytes, 1)
                                              : 0;
  }
  return at->second = now > 0 ? first / now : 0;
}

// Returns the seconds that the messages of one micro-batch take of a stage, which nothing hides.
double llmc::cost::messageOf(const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  if (choices.mesh.pp == 1)
    return 0;
  double tokens = table.tokens / double(choices.mesh.cp);
  double bytes = tokens * table.width * choices.elementBytes();
  if (table.isOfPlan)
    return messageTime(machine, choices.mesh.ranksOfStage(), std::max(table.sentForward, table.sentBackward));
  if (choices.pipelineScatter || choices.sequenceParallel)
    bytes /= double(choices.mesh.tp);
  return messageTime(machine, choices.mesh.ranksOfStage(), bytes);
}

// Returns the groups of dense parameters and of experts.
std::pair<Group, Group> llmc::cost::dataGroups(const Choices &choices) {
  const planfile::MeshSizes &mesh = choices.mesh;
  int64_t etp = std::max<int64_t>(1, mesh.etp), experts = mesh.ep * etp;
  return {Group{mesh.dp * mesh.cp, mesh.tp}, Group{std::max<int64_t>(1, mesh.ranksOfStage() / experts), experts}};
}

// Returns the passes of each stage, of one that is priced as a whole as one chunk.
std::vector<std::vector<ChunkPasses>> llmc::cost::passesOf(const std::vector<Stage> &stages, Order order, bool byChunk) {
  std::vector<std::vector<ChunkPasses>> all;
  for (const Stage &stage : stages) {
    auto &passes = all.emplace_back();
    auto passOf = [&](const PassTime &forward, const PassTime &backward) {
      double apart = order == Order::ZeroBubble ? backward.weights : 0;
      return ChunkPasses{forward.exposed.sum(), backward.exposed.sum() - apart, apart};
    };
    if (!byChunk) {
      passes.push_back(passOf(stage.forward, stage.backward));
      continue;
    }
    size_t next = 0;
    double sum = 0;
    for (size_t count : stage.chunks) {
      PassTime forward, backward;
      for (size_t end = next + count; next < end; ++next)
        forward += stage.parts[next].forward, backward += stage.parts[next].backward;
      passes.push_back(passOf(forward, backward));
      sum += forward.exposed.sum() + backward.exposed.sum();
    }
    // Takes longer where the host launches too slowly.
    for (ChunkPasses &pass : passes)
      for (double *seconds : {&pass.forward, &pass.backward, &pass.weights})
        *seconds *= sum > 0 ? stage.microBatch() / sum : 1;
  }
  return all;
}

// Returns the seconds of the update of a stage's weights.
double llmc::cost::optimizerTime(const Machine &machine, const Stage &stage) {
  const Choices &choices = machine.choices;
  auto [dense, expert] = dataGroups(choices);
  double elements = choices.zero == 0
                        ? stage.parameters.all()
                        : stage.parameters.dense / double(dense.size) + stage.parameters.expert / double(expert.size);
  // Reads gradient, master and moments and writes these and the weight; the norm reads the gradient once more.
  bool low = choices.moments != Number::Fp32;
  double state = bytesOf(choices.moments), gradient = bytesOf(choices.gradients), weight = choices.elementBytes();
  double bytes = 2 * gradient + (low ? 4 * state + 2 * weight : 4 * state + 8 + weight);
  // Copies 16-bit gradients to fp32 before they are unscaled.
  if (choices.software == Profile::Eager && gradient < 4)
    bytes += gradient + 4 + 8;
  double time = machine.memory(bytes * elements);
  if (choices.offload == Offload::Optimizer && machine.cluster.pcie > 0)
    time = std::max(time, elements * (gradient + weight) / machine.cluster.pcie);
  return time;
}

std::vector<int64_t> llmc::cost::divideLayers(const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  int64_t parts = choices.mesh.pp * choices.chunks, layers = int64_t(table.layers.size());
  if (!choices.stages.empty())
    return choices.stages;
  if (layers % parts == 0)
    return std::vector<int64_t>(parts, layers / parts);
  const PartPrices prices = priceParts(table, machine);
  // Counts the head as so many layers, and fills stages up to the least capacity that holds them all.
  double layer = 0;
  for (int64_t i = 0; i < layers; ++i)
    layer += prices.kinds[table.layers[size_t(i)]].sum() / double(layers);
  double head = layer > 0 ? prices.after.sum() / layer : 0;
  auto fits = [&](double capacity) {
    std::vector<int64_t> counts;
    int64_t left = layers;
    for (int64_t part = 0; part < parts; ++part) {
      double own = capacity - (part == parts - 1 ? head : 0);
      int64_t count = std::clamp<int64_t>(int64_t(std::floor(own + 1e-9)), 0, left);
      counts.push_back(count);
      left -= count;
    }
    return left > 0 ? std::vector<int64_t>() : counts;
  };
  for (double capacity = std::floor(double(layers) / double(parts)); capacity <= double(layers) + head + 1;
       capacity += 0.25)
    if (auto counts = fits(capacity); !counts.empty()) {
      // Evens out what the first stages took more than the last: none may be without a layer but at the ends.
      for (int64_t part = parts - 1; part-- > 0;)
        if (counts[part] == 0)
          for (int64_t from = 0; from < part; ++from)
            if (counts[from] > 1) {
              --counts[from], ++counts[part];
              break;
            }
      return counts;
    }
  std::vector<int64_t> counts(parts, layers / parts);
  for (int64_t i = 0; i < layers % parts; ++i)
    ++counts[i];
  return counts;
}
