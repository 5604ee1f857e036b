#include "lib/search/RowBounds.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llmc;
using namespace llmc::search;

const cost::Table *RowBounds::tableOf(int64_t rows, cost::Kept kept, bool isSplit) {
  auto found = made_.find({rows, kept, isSplit});
  if (found == made_.end()) {
    TableKey key = key_;
    key.microBatch = rows;
    if (isSplit || key.staging == Staging::Split)
      key.staging = isSplit ? Staging::Split : Staging::Several;
    std::string why;
    auto table = tables_.interpolate(key, kept, /*forPasses=*/true, why, share_);
    if (!table)
      return nullptr;
    found = made_.emplace(std::tuple(rows, kept, isSplit), std::move(*table)).first;
  }
  return &found->second;
}

// Returns a plan of the layout of the tables that has as many ranks and micro-batches.
Candidate RowBounds::planOf(int64_t pp, int64_t rows, int zero, bool isSplit, cost::Kept kept) const {
  const int64_t dp = space_.dataRanks(layout_, pp);
  return {key_.layout, dp * layout_.cp / key_.layout.cp, pp, 1, rows, std::max<int64_t>(1, request_.options.globalBatch / (dp * rows)),
          isSplit ? cost::Order::ZeroBubble : cost::Order::OneFOneB, zero, kept, {}};
}

bool RowBounds::fits(const Candidate &plan, const std::vector<int> &zeros, bool isSplit) {
  const cost::Table *table = tableOf(plan.microBatch, plan.recompute, isSplit);
  return !table || !passes_.isOurs() || passes_.split(plan.pp, plan.chunks).empty() || llvm::any_of(zeros, [&](int zero) {
    Candidate own = plan;
    own.zero = zero;
    return passes_.leastPeak(passes_.statesOf(*table, own), own) <= passes_.usable();
  });
}

bool RowBounds::find() {
  const std::vector<cost::Kept> recomputes = space_.recomputes();
  const bool hasJoined = llvm::any_of(space_.orders(2), [](cost::Order order) { return order != cost::Order::ZeroBubble; });
  // Looks at the ends: tables of other rows are made of the same samples.
  for (int64_t rows : {rows_.front(), rows_.back()})
    if (!tableOf(rows, recomputes.front(), passes_.splits() && !hasJoined))
      return false;
  seconds_.assign(rows_.size(), std::numeric_limits<double>::infinity());
  for (int64_t pp : space_.stages(layout_, passes_.layers()))
    // Bounds plans whose ranks share out sums of gradients apart from others, and those that split gradients of weights.
    for (bool sharesSums : {false, true}) {
      std::vector<int> zeros = space_.zeros(space_.dataRanks(layout_, pp) * layout_.cp);
      std::erase_if(zeros, [&](int zero) { return (zero >= 2) != sharesSums; });
      if (!sharesSums && zeros.size() > 1)
        zeros = {1}; // needs less than 0
      for (bool isSplit : {false, true}) {
        std::vector<cost::Order> orders = space_.orders(pp);
        std::erase_if(orders, [&](cost::Order order) { return (passes_.stagingOf(pp, order) == Staging::Split) != isSplit; });
        if (!zeros.empty() && !orders.empty())
          bound(pp, zeros, orders, isSplit);
      }
    }
  made_.clear();
  prices_.clear(), bounds_.clear();
  return true;
}

// Bounds the plans of a number of stages that recompute no more than makes some plan fit.
void RowBounds::bound(int64_t pp, const std::vector<int> &zeros, const std::vector<cost::Order> &orders, bool isSplit) {
  const std::vector<cost::Kept> recomputes = space_.recomputes();
  const std::vector<int64_t> sizes = space_.microBatches(space_.dataRanks(layout_, pp));
  size_t k = 0; // more rows need more, so that what did not fit before does not fit again
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (!llvm::is_contained(sizes, rows_[row]))
      continue;
    auto planWith = [&](size_t kept) { return planOf(pp, rows_[row], zeros.front(), isSplit, recomputes[kept]); };
    while (k < recomputes.size() && !fits(planWith(k), zeros, isSplit))
      ++k;
    if (k == recomputes.size()) {
      seconds_[row] = std::min(seconds_[row], kLate);
      continue;
    }
    // Computes more again where an order does not fit otherwise: that takes longer, and lets it fit.
    bool isLeft = true;
    for (size_t kept = k; isLeft && kept < recomputes.size(); ++kept) {
      const cost::Table *table = tableOf(rows_[row], recomputes[kept], isSplit);
      if (!table)
        continue;
      isLeft = false;
      visitOrders(planWith(kept), orders, *table, [&](const Candidate &plan, double seconds) {
        // Looks at memory of other orders, which is no less, where that may raise the bound.
        if (seconds >= seconds_[row])
          return;
        if (plan.order == planWith(kept).order || fits(plan, zeros, isSplit))
          seconds_[row] = seconds;
        else
          isLeft = true;
      });
    }
  }
}

// Calls visit(plan, seconds) for the orders of a number of stages and rows, with bounds by the table of their passes.
template <class Visit>
void RowBounds::visitOrders(Candidate plan, const std::vector<cost::Order> &orders, const cost::Table &table, Visit visit) {
  const bool leavesOut = passes_.isOurs() && plan.zero >= 2 && key_.zero < 2;
  // Takes tables of several stages for one, and of other ranks of a row.
  const double slack = share_ == 1 ? 0.99 : kSure;
  CompileOptions options = request_.options;
  for (cost::Order order : orders) {
    plan.order = order, plan.chunks = 1;
    cost::Machine machine = passes_.machineOf(plan, options);
    auto known = bounds_.find({&table, leavesOut});
    if (known == bounds_.end() || !passes_.isOurs()) { // others have prices for each order
      auto [priced, isNew] = prices_.try_emplace(&table);
      if (isNew || !passes_.isOurs())
        priced->second = cost::priceParts(table, machine);
      cost::PartPrices prices = priced->second;
      if (leavesOut)
        leaveOutSums(prices, table, machine);
      bounds_.erase({&table, leavesOut});
      known = bounds_.emplace(std::pair(&table, leavesOut), cost::StepBound(prices, table, machine)).first;
    }
    const cost::StepBound &bound = known->second;
    for (int64_t chunks : order == cost::Order::Interleaved ? space_.chunks(plan.pp, passes_.layers()) : std::vector<int64_t>{1}) {
      plan.chunks = machine.choices.chunks = chunks;
      if (passes_.allows(plan))
        visit(plan, slack * bound.of(passes_.split(plan.pp, chunks), machine));
    }
  }
}
