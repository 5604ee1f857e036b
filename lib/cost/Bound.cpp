#include "lib/cost/Bound.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::cost;

StepBound::Sum StepBound::sumOf(const PartPrices::Of &price, bool splits) {
  double apart = splits ? price.backward.weights : 0;
  return {price.forward.exposed.sum(), price.backward.exposed.sum() - apart, apart};
}

StepBound::StepBound(const PartPrices &prices, const Table &table, const Machine &machine)
    : table_(table), splits_(machine.choices.order == Order::ZeroBubble),
      computesSharedAgain_(machine.choices.recompute == Kept::All) {
  before_ = sumOf(prices.before, splits_), shared_ = sumOf(prices.shared, splits_), after_ = sumOf(prices.after, splits_);
  std::vector<Sum> kinds;
  for (const PartPrices::Of &kind : prices.kinds)
    kinds.push_back(sumOf(kind, splits_));
  until_.emplace_back();
  for (int kind : table.layers)
    until_.emplace_back(until_.back()) += kinds[kind];
}

double StepBound::of(const std::vector<int64_t> &layers, const Machine &machine) const {
  const Choices &choices = machine.choices;
  const size_t p = size_t(choices.mesh.pp), chunks = layers.size();
  const double m = double(choices.microBatches), message = messageOf(table_, machine);
  std::vector<Sum> stages(p);
  double bound = 0, filled = 0, drained = 0, ofWeights = 0;
  size_t next = 0;
  std::vector<Sum> first(p); // of the first chunk of each stage
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const size_t end = std::min(until_.size() - 1, next + size_t(layers[chunk]));
    const Sum &from = until_[next], &to = until_[end];
    Sum own{to.forward - from.forward, to.backward - from.backward, to.weights - from.weights};
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
    stages[chunk % p] += own;
    if (chunk < p)
      first[chunk] = own;
  }
  for (size_t stage = 0; stage < p; ++stage) {
    const Sum &own = stages[stage];
    double busy = m * (own.forward + own.backward + own.weights);
    if (!table_.isOfPlan) { // other stacks are composed from their longest stage
      bound = std::max(bound, busy);
      continue;
    }
    // Gradients of weights may fill the time in which the last gradient passes the stages before.
    bound = std::max({bound, filled + busy, filled + m * (own.forward + own.backward) + drained + ofWeights});
    if (!splits_)
      bound = std::max(bound, filled + busy + drained);
    filled += first[stage].forward + message;
    drained += first[stage].backward + message;
    ofWeights = first[0].weights;
  }
  return bound * machine.pace(double(choices.mesh.ranksOfStage() * choices.mesh.pp));
}
