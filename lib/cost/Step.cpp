#include "lib/cost/Step.h"

#include "lib/cost/Collectives.h"
#include "lib/cost/PlanStep.h"

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

// Holds what the gradients and weights of a stage cost over data-parallel ranks, of a whole step.
struct DataTraffic {
  double exposed = 0, slowdown = 0;
};

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
  double ranks = double(machine.choices.mesh.ranksOfStage() * machine.choices.mesh.pp);
  parts = parts * machine.pace(ranks);
}

double lastEnd(const std::vector<Stage> &stages, const Machine &machine, double message) {
  std::vector<double> ends = runSchedule(passesOf(stages, machine.choices.order, false), machine.choices.order, machine.choices.microBatches, message);
  return *std::max_element(ends.begin(), ends.end());
}

// Composes the step of other stacks from its longest stage.
void compose(const Table &table, const Machine &machine, std::vector<Stage> &stages, StepTime &step) {
  const Choices &choices = machine.choices;
  double message = messageOf(table, machine);
  double p = double(choices.mesh.pp), v = double(choices.chunks), m = double(choices.microBatches);
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
    fill = std::max(0.0, lastEnd(stages, machine, message) - m * longest->microBatch());
  if (choices.order == Order::ZeroBubble)
    fill = std::max(0.0, fill - 2 * (p - 1) * longest->backward.weights);
  step.parts.bubble = fill;
  double busy = step.parts.sum();
  step.bubbleFraction = busy > 0 ? std::max(0.0, 1 - m * all / (p * busy)) : 0;
  addUpdate(machine, stages, step.parts);
}

// Counts the FLOPs of products and attention of a step; the hardware's have what is computed again, too.
void countFlops(const Table &table, const Choices &choices, StepTime &step) {
  double forward = 0, again = 0, all = 0; // of our own plans `all`, else what is computed again beside three times forward
  auto count = [&](const Part &part, bool isLayer) {
    double flops = 0, core = 0;
    for (const Product &product : part.forward.products) {
      flops += product.flops();
    }
    // Leaves out what several ranks compute alike: heads of keys and values that tp ranks repeat.
    double copies = part.parameters.dense * double(choices.mesh.tp) +
                    part.parameters.expert * double(choices.mesh.ep * std::max<int64_t>(1, choices.mesh.etp));
    if (isLayer && copies > part.wholeParameters)
      flops *= part.wholeParameters / copies;
    for (const Attention &attention : part.forward.attentions)
      core += attention.flops();
    forward += flops + core;
    if (table.isOfPlan) {
      for (const Work *work : {&part.forward, &part.backward, &part.weightGradients}) {
        for (const Product &product : work->products)
          all += product.flops();
        for (const Attention &attention : work->attentions)
          all += attention.flops();
      }
      return;
    }
    if (isLayer && choices.recompute != Kept::All)
      again += choices.recompute == Kept::Full ? (flops + core) * choices.recomputed : core;
  };
  count(table.before, false);
  count(table.after, false);
  for (int kind : table.layers)
    count(table.kinds[kind], true);
  double ofStep = double(choices.microBatches * choices.mesh.ranksOfStage());
  step.modelFlops = 3 * forward * ofStep;
  step.hardwareFlops = table.isOfPlan ? all * ofStep : step.modelFlops + again * ofStep;
}

} // namespace

double llmc::cost::trainingFlops(double parameters, double tokens) { return 6 * parameters * tokens; }

StepTime llmc::cost::predictStep(const Table &table, const Machine &machine) {
  return predictStep(priceParts(table, machine), table, machine);
}

StepTime llmc::cost::predictStep(const PartPrices &prices, const Table &table, const Machine &machine, bool isBound) {
  const Choices &choices = machine.choices;
  std::vector<Stage> stages = priceStages(prices, table, machine);
  StepTime step;
  if (table.isOfPlan)
    composePlan(table, machine, stages, step, isBound);
  else
    compose(table, machine, stages, step);
  step.tokens = int64_t(table.tokens * double(choices.microBatches * choices.mesh.dp));
  step.step = step.parts.sum();
  countFlops(table, choices, step);
  for (Stage &stage : stages)
    step.stages.push_back(stage.time);
  return step;
}
