#include "lib/cost/Step.h"

#include "lib/cost/Collectives.h"
#include "lib/cost/Memory.h"

#include <algorithm>
#include <cmath>

using namespace llmc;
using namespace llmc::cost;

TimeParts &TimeParts::operator+=(const TimeParts &o) {
  compute += o.compute, tp += o.tp, dp += o.dp, pp += o.pp, cp += o.cp, ep += o.ep;
  bubble += o.bubble, optimizer += o.optimizer, host += o.host;
  return *this;
}

TimeParts TimeParts::operator*(double f) const {
  return {compute * f, tp * f, dp * f, pp * f, cp * f, ep * f, bubble * f, optimizer * f, host * f};
}

namespace {

// Holds what one pass over one part takes.
struct PassTime {
  TimeParts exposed; // compute and the communication that it does not hide
  double host = 0;   // seconds of the host, beside all that
  double attention = 0, weights = 0;

  PassTime &operator+=(const PassTime &o) {
    exposed += o.exposed, host += o.host, attention += o.attention, weights += o.weights;
    return *this;
  }
  PassTime operator*(double f) const { return {exposed * f, host * f, attention * f, weights * f}; }
};

// Prices the parts of one run, each once.
class Pricer {
public:
  Pricer(const Table &table, const Machine &machine) : table_(table), m_(machine) {
    before_ = price(table.before, false);
    after_ = price(table.after, false);
    for (const Part &kind : table.kinds)
      kinds_.push_back(price(kind, true));
  }

  struct PartTime {
    PassTime forward, backward;
    double sum() const { return forward.exposed.sum() + backward.exposed.sum(); }
  };

  const PartTime &layer(size_t index) const { return kinds_[table_.layers[index]]; }
  const PartTime &before() const { return before_; }
  const PartTime &after() const { return after_; }

private:
  PassTime pass(const Work &work, bool backward, bool isLayer) const;
  PartTime price(const Part &part, bool isLayer) const;

  const Table &table_;
  const Machine &m_;
  PartTime before_, after_;
  std::vector<PartTime> kinds_;
};

// Rounds up to what stacks pad a vocabulary to, so that products of the head are aligned.
double padded(double size) { return size < 4096 ? size : std::ceil(size / 128) * 128; }

// Returns what a full recomputation of a layer computes again. In our own plans backward gathers the tokens of tp ranks
// anyway, for the gradients of weights.
Work computedAgain(Work work, Profile software) {
  std::erase_if(work.products, [](const Product &product) { return product.endsLayer; });
  std::erase_if(work.collectives, [&](const Collective &collective) {
    bool isGathered = collective.kind == Transfer::AllGather && collective.role == Role::Tensor;
    return collective.endsLayer || (software == Profile::Llmc && isGathered);
  });
  return work;
}

PassTime Pricer::pass(const Work &work, bool backward, bool isLayer) const {
  const Choices &choices = m_.choices;
  PassTime time;
  double products = 0, operations = work.operations;
  for (Product product : work.products) {
    if (!isLayer) {
      product.columns = padded(product.columns);
      product.depth = padded(product.depth);
    }
    double own = timeOf(m_, product, !isLayer);
    products += own;
    if (product.ofWeights)
      time.weights += own;
    operations -= double(product.merged - 1);
    // Launches a product for each expert, and every other time a copy: libraries of grouped products loop over experts
    // on several streams. In fp8 each has a cast of its own.
    if (product.experts && choices.software != Profile::Llmc)
      operations += double(product.experts) * (choices.precision == Number::Fp8 ? 2.5 : 1.5);
  }
  for (const Attention &attention : work.attentions)
    time.attention += timeOf(m_, attention, backward);
  // Launches what one kernel of attention does as several: two products, softmax, dropout; scale, mask and casts.
  double launches = choices.attention == AttentionKernel::FusedSoftmax ? 3
                    : choices.attention == AttentionKernel::Unfused    ? 8
                                                                       : 0;
  operations += launches * (backward ? 2 : 1) * double(work.attentions.size());
  time.exposed.compute = products + time.attention +
                         elementwiseTime(m_, work.bytes, std::max(0.0, work.operations - double(work.products.size())));
  for (const Collective &collective : work.collectives) {
    if (collective.role == Role::Expert)
      continue;
    double own = timeOf(m_, collective);
    (collective.role == Role::Tensor ? time.exposed.tp : time.exposed.cp) += own;
  }
  for (const Collective &collective : work.collectives)
    if (collective.role == Role::Expert)
      time.exposed.ep += exchangeTime(m_, collective.group, collective.bytes, table_.copies);
  double &tp = time.exposed.tp, &cp = time.exposed.cp, &ep = time.exposed.ep;
  // Hides what a ring of keys and values sends behind the attention of the keys that are there.
  cp = std::max(0.05 * cp, cp - time.attention);
  // Leaves at least 0.3 exposed: the first and last pieces of each product have nothing to hide behind.
  if (choices.tensorOverlap)
    tp = std::max(0.3 * tp, tp - m_.constants.hiddenBehindProducts * products);
  if (choices.expertOverlap)
    ep = std::max(0.1 * ep, ep - 0.7 * time.exposed.compute);
  double captured = choices.cudaGraphs ? 0.5 : 1; // graphs of a part of each layer
  // Launches a kernel of ours from a loop in C++: 3 us a call of the driver (cuLaunchKernel).
  time.host = operations * captured * (choices.software == Profile::Llmc ? 3e-6 : m_.constants.hostOperation);
  // Waits for each of the two kernels of an operation: 30 us from the end of one to the start of the next.
  if (choices.launchBlocking)
    time.host += operations * 60e-6;
  return time;
}

Pricer::PartTime Pricer::price(const Part &part, bool isLayer) const {
  PartTime time{pass(part.forward, false, isLayer), pass(part.backward, true, isLayer)};
  // Adds each gradient to its buffer: where products do not do it themselves, a kernel reads the new one, too.
  double gradient = bytesOf(m_.choices.gradients);
  double bytes = m_.choices.software == Profile::Eager ? 2 * gradient + 2 * m_.choices.elementBytes() : 2 * gradient;
  // Adds in the product itself, whose result is counted already; the first micro-batch of a step writes it.
  if (m_.choices.software == Profile::Llmc)
    bytes = std::max(0.0, gradient * (2 - 1 / double(m_.choices.microBatches)) - m_.choices.elementBytes());
  time.backward.exposed.compute += m_.memory(bytes * part.parameters.all());
  if (!isLayer)
    return time;
  if (m_.choices.recompute == Kept::Full)
    time.backward += pass(computedAgain(part.forward, m_.choices.software), false, isLayer) * m_.choices.recomputed;
  // Computes elementwise ops and norms again in our own plans, the core of attention in other stacks (Korthikanti et
  // al., 2022, section 5).
  if (m_.choices.recompute == Kept::Selective)
    time.backward.exposed.compute += m_.choices.software == Profile::Llmc
                                         ? elementwiseTime(m_, part.forward.bytes, part.forward.operations)
                                         : time.forward.attention;
  return time;
}

// Holds the price of one stage, and what it has.
struct Stage {
  StageTime time;
  PassTime forward, backward;
  Parameters parameters;
  double microBatch() const { return forward.exposed.sum() + backward.exposed.sum(); }
};

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

// Prices the stages of the pipeline, one micro-batch each.
std::vector<Stage> priceStages(const Table &table, const Machine &machine, const Pricer &pricer) {
  const Choices &choices = machine.choices;
  int64_t p = choices.mesh.pp, v = choices.chunks;
  std::vector<int64_t> layers = divideLayers(table, machine);
  std::vector<Stage> stages(p);
  size_t next = 0;
  for (int64_t chunk = 0; chunk < p * v; ++chunk) {
    Stage &stage = stages[chunk % p];
    stage.time.layers.push_back(layers[chunk]);
    auto add = [&](const Pricer::PartTime &time, const Part &part) {
      stage.forward += time.forward;
      stage.backward += time.backward;
      stage.parameters.dense += part.parameters.dense;
      stage.parameters.expert += part.parameters.expert;
    };
    if (chunk == 0)
      add(pricer.before(), table.before);
    for (int64_t i = 0; i < layers[chunk]; ++i, ++next)
      add(pricer.layer(next), table.kinds[table.layers[next]]);
    if (chunk == p * v - 1) {
      add(pricer.after(), table.after);
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

// Returns the seconds that the messages of one micro-batch take of a stage, which nothing hides.
double messagesOf(const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  if (choices.mesh.pp == 1)
    return 0;
  double tokens = table.tokens / double(choices.mesh.cp);
  double bytes = tokens * table.width * choices.elementBytes();
  if (choices.pipelineScatter || choices.sequenceParallel)
    bytes /= double(choices.mesh.tp);
  return messageTime(machine, choices.mesh.ranksOfStage(), bytes);
}

// Holds what the gradients and weights of a stage cost over data-parallel ranks, of a whole step.
struct DataTraffic {
  double exposed = 0, slowdown = 0;
};

// Returns the groups of dense parameters and of experts.
std::pair<Group, Group> dataGroups(const Choices &choices) {
  const planfile::MeshSizes &mesh = choices.mesh;
  int64_t etp = std::max<int64_t>(1, mesh.etp), experts = mesh.ep * etp;
  return {Group{mesh.dp * mesh.cp, mesh.tp}, Group{std::max<int64_t>(1, mesh.ranksOfStage() / experts), experts}};
}

DataTraffic dataTraffic(const Machine &machine, const Stage &stage, double layersOfStage) {
  const Choices &choices = machine.choices;
  auto [dense, expert] = dataGroups(choices);
  // Sends one message a layer.
  double calls = std::max(1.0, layersOfStage);
  auto all = [&](Transfer kind, double bytesOfElement) {
    double bytes = bytesOfElement / calls;
    return calls * (timeOf(machine, {kind, Role::Data, dense, stage.parameters.dense * bytes}) +
                    timeOf(machine, {kind, Role::Data, expert, stage.parameters.expert * bytes}));
  };
  double reduced = bytesOf(choices.reduced), weights = choices.elementBytes();
  DataTraffic traffic;
  double first = 1 / std::max(1.0, layersOfStage); // of all, what comes before or after all compute
  constexpr double slow =
      0.17; // of hidden traffic: compute shares memory and multiprocessors with it (Galvatron: 0.13)
  auto hide = [&](double time, double compute) {
    double hidden = choices.overlap ? std::min(time * (1 - first), compute) : 0;
    traffic.exposed += time - hidden;
    traffic.slowdown += slow * hidden;
  };
  double forward = stage.forward.exposed.sum(), backward = stage.backward.exposed.sum();
  // Waits in our own plans for the gathered weights after the update, and for each layer's scattered gradients before the
  // next layer.
  if (choices.software == Profile::Llmc && choices.zero > 0) {
    double scatter = all(Transfer::ReduceScatter, reduced), gather = all(Transfer::AllGather, weights);
    double times = double(choices.microBatches);
    if (choices.zero == 1)
      hide(scatter, backward);
    if (choices.zero == 3) {
      hide(gather, forward);
      hide(gather, backward);
      traffic.exposed *= times;
      traffic.slowdown *= times;
    }
    traffic.exposed += (choices.zero < 3 ? gather : 0) + (choices.zero > 1 ? scatter * times : 0);
    return traffic;
  }
  if (choices.zero == 3) {
    double gather = all(Transfer::AllGather, weights);
    hide(gather, forward);
    hide(gather + all(Transfer::ReduceScatter, reduced), backward);
    traffic.exposed *= double(choices.microBatches);
    traffic.slowdown *= double(choices.microBatches);
    return traffic;
  }
  if (choices.zero == 0) {
    hide(all(Transfer::AllReduce, reduced), backward);
    return traffic;
  }
  hide(all(Transfer::ReduceScatter, reduced), backward);
  hide(all(Transfer::AllGather, weights), forward);
  return traffic;
}

// Returns the seconds of the update of a stage's weights.
double optimizerTime(const Machine &machine, const Stage &stage) {
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

} // namespace

std::vector<int64_t> llmc::cost::divideLayers(const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  int64_t parts = choices.mesh.pp * choices.chunks, layers = int64_t(table.layers.size());
  if (!choices.stages.empty())
    return choices.stages;
  if (layers % parts == 0)
    return std::vector<int64_t>(parts, layers / parts);
  Machine alone = machine;
  alone.choices.stages = {layers};
  Pricer pricer(table, alone);
  // Counts the head as so many layers, and fills stages up to the least capacity that holds them all.
  double layer = 0;
  for (int64_t i = 0; i < layers; ++i)
    layer += pricer.layer(i).sum() / double(layers);
  double head = layer > 0 ? pricer.after().sum() / layer : 0;
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

double llmc::cost::trainingFlops(double parameters, double tokens) { return 6 * parameters * tokens; }

namespace {

// Adds to the step what the update of its longest stage takes, and what each step does.
void addUpdate(const Machine &machine, const std::vector<Stage> &stages, TimeParts &parts) {
  double dp = 0, optimizer = 0;
  for (const Stage &stage : stages) {
    double layers = 0;
    for (int64_t count : stage.time.layers)
      layers += double(count);
    DataTraffic traffic = dataTraffic(machine, stage, layers);
    dp = std::max(dp, traffic.exposed + traffic.slowdown);
    optimizer = std::max(optimizer, optimizerTime(machine, stage));
  }
  parts.dp += dp;
  parts.optimizer = optimizer;
  parts.host += machine.choices.software == Profile::Llmc ? 0 : machine.constants.perStep;
  // Loses 0.4 % for each doubling of ranks beyond a node: the slowest of more ranks sets the pace.
  double ranks = double(machine.choices.mesh.ranksOfStage() * machine.choices.mesh.pp);
  parts = parts * (1 + 0.004 * std::max(0.0, std::log2(ranks / double(machine.cluster.gpusPerNode))));
}

// Returns when the last pass of a pipeline without interleaved chunks ends. Each stage runs its passes in the order of the
// schedule (Narayanan et al., 2021, section 2.2), each as soon as the one before and what it needs of a neighbour have
// ended, a message later.
double pipelineEnd(const std::vector<Stage> &stages, Order order, int64_t microBatches, double message) {
  const size_t p = stages.size();
  struct Place {
    int64_t forward = 0, backward = 0; // passes that have ended
    double now = 0;
  };
  std::vector<Place> places(p);
  std::vector<std::vector<double>> forward(p), backward(p); // when each ended
  double end = 0;
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t s = 0; s < p; ++s)
      while (places[s].backward < microBatches) {
        Place &at = places[s];
        int64_t ahead = order == Order::GPipe ? microBatches : std::min<int64_t>(microBatches, int64_t(p - s));
        bool isForward = at.forward < microBatches && at.forward - at.backward < ahead;
        const auto &needed = isForward ? (s > 0 ? forward[s - 1] : forward[s]) : (s + 1 < p ? backward[s + 1] : forward[s]);
        int64_t index = isForward ? at.forward : at.backward;
        bool isOwn = isForward ? s == 0 : s + 1 == p;
        if (!isOwn && int64_t(needed.size()) <= index)
          break;
        double begin = std::max(at.now, isOwn ? 0 : needed[index] + message);
        at.now = begin + (isForward ? stages[s].forward : stages[s].backward).exposed.sum();
        (isForward ? forward : backward)[s].push_back(at.now);
        ++(isForward ? at.forward : at.backward);
        end = std::max(end, at.now);
        progress = true;
      }
  }
  return end;
}

// Counts the FLOPs of products and attention of a step; the hardware's have what is computed again, too.
void countFlops(const Table &table, const Choices &choices, StepTime &step) {
  double forward = 0, again = 0;
  auto count = [&](const Part &part, bool isLayer) {
    double flops = 0, core = 0, last = 0;
    for (const Product &product : part.forward.products) {
      flops += product.flops();
      last += product.endsLayer ? product.flops() : 0;
    }
    // Leaves out what several ranks compute alike: heads of keys and values that tp ranks repeat.
    double copies = part.parameters.dense * double(choices.mesh.tp) +
                    part.parameters.expert * double(choices.mesh.ep * std::max<int64_t>(1, choices.mesh.etp));
    if (isLayer && copies > part.wholeParameters)
      flops *= part.wholeParameters / copies, last *= part.wholeParameters / copies;
    for (const Attention &attention : part.forward.attentions)
      core += attention.flops();
    forward += flops + core;
    if (isLayer && choices.recompute != Kept::All)
      again += choices.recompute == Kept::Full ? (flops - last + core) * choices.recomputed : core;
  };
  count(table.before, false);
  count(table.after, false);
  for (int kind : table.layers)
    count(table.kinds[kind], true);
  double ofStep = double(choices.microBatches * choices.mesh.ranksOfStage());
  step.modelFlops = 3 * forward * ofStep;
  step.hardwareFlops = step.modelFlops + again * ofStep;
}

} // namespace

StepTime llmc::cost::predictStep(const Table &table, const Machine &machine) {
  const Choices &choices = machine.choices;
  Pricer pricer(table, machine);
  std::vector<Stage> stages = priceStages(table, machine, pricer);
  double p = double(choices.mesh.pp), v = double(choices.chunks), m = double(choices.microBatches);
  double message = messagesOf(table, machine);
  // Hides messages behind the other chunk's compute where stages interleave, as far as that takes; else a micro-batch
  // waits for both.
  for (Stage &stage : stages) {
    double sent = p > 1 ? 2 * v * message : 0;
    double perMicroBatch = choices.chunks > 1 && choices.overlap ? std::max(0.0, sent - stage.microBatch()) : sent;
    stage.forward.exposed.pp += perMicroBatch / 2;
    stage.backward.exposed.pp += perMicroBatch / 2;
  }
  auto longest = std::max_element(stages.begin(), stages.end(),
                                  [](const Stage &a, const Stage &b) { return a.microBatch() < b.microBatch(); });
  StepTime step;
  step.parts = longest->forward.exposed * m;
  step.parts += longest->backward.exposed * m;
  double all = 0;
  for (const Stage &stage : stages)
    all += stage.microBatch();
  // Fills and drains the pipeline: the first micro-batch passes the other stages, once for all chunks but one
  // (Narayanan et al., 2021, section 2.2). A zero-bubble schedule fills the wait with gradients of weights, ZB-H1 all
  // but a third of it (Qi et al., 2024, Table 1).
  double fill = (all - longest->microBatch()) / v + 2 * (p - 1) * message;
  // Runs the schedule where stages differ: those that wait for a longer one have their fill and drain beside its work.
  if (p > 1 && choices.chunks == 1 && choices.order != Order::ZeroBubble)
    fill = std::max(0.0, pipelineEnd(stages, choices.order, choices.microBatches, message) - m * longest->microBatch());
  if (choices.order == Order::ZeroBubble)
    fill = std::max(0.0, fill - 2 * (p - 1) * longest->backward.weights);
  step.parts.bubble = fill;
  double busy = step.parts.sum();
  step.bubbleFraction = busy > 0 ? std::max(0.0, 1 - m * all / (p * busy)) : 0;
  addUpdate(machine, stages, step.parts);
  step.step = step.parts.sum();
  countFlops(table, choices, step);
  step.tokens = int64_t(table.tokens * m * double(choices.mesh.dp));
  for (Stage &stage : stages)
    step.stages.push_back(stage.time);
  return step;
}
