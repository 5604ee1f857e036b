#include "lib/cost/Bound.h"

#include "lib/cost/Collectives.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::cost;

StepBound::Sum StepBound::sumOf(const PartPrices::Of &price, const Part &part, bool splits) {
  double apart = splits ? price.backward.weights : 0;
  return {price.forward.exposed.sum(), price.backward.exposed.sum() - apart, apart, part.parameters.dense, part.parameters.expert};
}

StepBound::StepBound(const PartPrices &prices, const Table &table, const Machine &machine)
    : table_(table), splits_(machine.choices.order == Order::ZeroBubble),
      computesSharedAgain_(machine.choices.recompute == Kept::All) {
  before_ = sumOf(prices.before, table.before, splits_), shared_ = sumOf(prices.shared, table.shared, splits_);
  after_ = sumOf(prices.after, table.after, splits_);
  std::vector<Sum> kinds;
  for (size_t i = 0; i < prices.kinds.size(); ++i)
    kinds.push_back(sumOf(prices.kinds[i], table.kinds[i], splits_));
  for (const Part &kind : table.kinds)
    isSplit_ |= !kind.weightGradients.products.empty();
  until_.reserve(table.layers.size() + 1);
  until_.emplace_back();
  for (int kind : table.layers)
    until_.emplace_back(until_.back()) += kinds[kind];
}

double StepBound::ofOne(double ranks, const Machine &machine) const {
  Sum all = until_.back();
  all += before_, all += after_;
  return (all.forward + all.backward + all.weights) * machine.pace(ranks);
}

double StepBound::of(const std::vector<int64_t> &layers, const Machine &machine) const {
  const Choices &choices = machine.choices;
  const size_t p = size_t(choices.mesh.pp), chunks = layers.size();
  const double m = double(choices.microBatches), message = messageOf(table_, machine);
  auto [dense, expert] = dataGroups(choices);
  const bool isShared = table_.isOfPlan && dense.size > 1;
  // Returns the seconds of a collective of the parameters of a part, of those of several in one message; chunks of as many layers
  // have as many.
  struct Sent {
    Transfer kind;
    double dense, expert, bytes, seconds;
  };
  std::vector<Sent> known;
  auto sent = [&, &dense = dense, &expert = expert](Transfer kind, const Sum &of, double bytes) {
    for (const Sent &one : known)
      if (one.kind == kind && one.dense == of.dense && one.expert == of.expert && one.bytes == bytes)
        return one.seconds;
    double seconds = 0;
    for (auto [group, parameters] : {std::pair(dense, of.dense), {expert, of.expert}})
      if (parameters > 0 && group.size > 1)
        seconds += timeOf(machine, {kind, Role::Data, group, parameters * bytes});
    if (known.size() < 8)
      known.push_back({kind, of.dense, of.expert, bytes, seconds});
    return seconds;
  };
  std::vector<Sum> stages(p);
  double gathered = 0, bound = 0, filled = 0, drained = 0, ofWeights = 0;
  size_t next = 0;
  std::vector<Sum> first(p); // of the first chunk of each stage
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const size_t end = std::min(until_.size() - 1, next + size_t(layers[chunk]));
    const Sum &from = until_[next], &to = until_[end];
    Sum own = to - from;
    next = end;
    if (chunk == 0)
      own += before_;
    if (table_.isOfPlan && layers[chunk] > 0) {
      own += shared_;
      if (computesSharedAgain_ && chunk > 0)
        own.backward += shared_.forward;
    }
    if (chunk + 1 == chunks)
      own += after_;
    if (isShared && choices.zero >= 2) {
      double gathered = choices.zero == 3 ? sent(Transfer::AllGather, own, choices.elementBytes()) : 0;
      own.forward = std::max(own.forward, gathered);
      double scattered = gathered + sent(Transfer::ReduceScatter, own, bytesOf(choices.reduced));
      own.backward += std::max(0.0, scattered - own.backward - own.weights);
    }
    stages[chunk % p] += own;
    if (chunk < p)
      first[chunk] = own;
  }
  for (size_t stage = 0; stage < p; ++stage) {
    const Sum &own = stages[stage];
    if (isShared && (choices.zero == 1 || choices.zero == 2))
      gathered = std::max(gathered, sent(Transfer::AllGather, own, choices.elementBytes()));
    double busy = m * (own.forward + own.backward + own.weights);
    if (!table_.isOfPlan) { // other stacks are composed from their longest stage
      bound = std::max(bound, busy);
      continue;
    }
    // Gradients of weights may fill the time in which the last gradient passes the stages before.
    bound = std::max(bound, filled + busy);
    if (splits_ && isSplit_)
      bound = std::max(bound, filled + m * (own.forward + own.backward) + drained + ofWeights);
    if (!splits_)
      bound = std::max(bound, filled + busy + drained);
    filled += first[stage].forward + message;
    drained += first[stage].backward + message;
    ofWeights = first[0].weights;
  }
  return (bound + gathered) * machine.pace(double(choices.mesh.ranksOfStage() * choices.mesh.pp));
}
