#include "lib/search/Space.h"

#include <algorithm>
#include <set>

using namespace llmc;
using namespace llmc::search;

std::vector<int64_t> search::divisorsOf(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t i = 1; i * i <= number; ++i)
    if (number % i == 0) {
      low.push_back(i);
      if (i * i != number)
        high.push_back(number / i);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<Layout> Space::layouts(int64_t tokens, int64_t experts) const {
  constexpr int64_t leastTokens = 512; // of a row on a rank: fewer leave attention nothing to hide a ring behind
  const Free &free = request_.free;
  const CompileOptions &o = request_.options;
  const int64_t fast = std::max<int64_t>(1, std::max(machine_.cluster.gpusPerNode, machine_.cluster.nvlinkDomain));
  auto divisors = [&](bool isFree, int64_t fixed, int64_t of, int64_t most) {
    std::vector<int64_t> values{fixed};
    if (isFree)
      values = divisorsOf(of);
    std::erase_if(values, [&](int64_t value) { return isFree && value > most; });
    return values;
  };
  std::vector<Layout> layouts;
  for (int64_t tp : divisors(free.tp, o.tp, request_.gpus, fast))
    for (int64_t cp : divisors(free.cp, o.cp, request_.gpus / tp, std::max<int64_t>(1, tokens / leastTokens))) {
      if (request_.gpus % (tp * cp))
        continue;
      const bool mayCut = tokens % (tp * cp) == 0; // else tokens stay whole unless they are asked to be cut
      std::vector<bool> sequences{free.sequenceParallel ? mayCut : o.sequenceParallel.value_or(mayCut)};
      if (free.sequenceParallel && mayCut)
        sequences = {true, false};
      if (tp == 1)
        sequences = {false};
      for (int64_t ep : divisors(free.ep, o.ep, experts, request_.gpus)) {
        std::vector<int64_t> shares{o.etp ? o.etp : 1};
        if (ep == 1 && !o.etp)
          shares = {0};
        if (free.etp && ep > 1)
          shares = divisorsOf(tp);
        for (int64_t etp : shares)
          for (bool sequence : sequences) {
            // Gives experts to ranks of tp that have other tokens alone.
            if (free.sequenceParallel && !sequence && tp > 1 && ep > 1 && etp < tp)
              continue;
            std::vector<cost::Number> numbers{machine_.choices.gradients};
            if (free.gradients && machine_.choices.precision != cost::Number::Fp32)
              numbers = {cost::Number::Fp32, machine_.choices.precision == cost::Number::Fp16 ? cost::Number::Fp16 : cost::Number::Bf16};
            for (cost::Number number : numbers)
              layouts.push_back({tp, cp, ep, etp, sequence, number});
          }
      }
    }
  std::stable_sort(layouts.begin(), layouts.end(), [](const Layout &a, const Layout &b) { return a.tp * a.cp * a.ep < b.tp * b.cp * b.ep; });
  return layouts;
}

// Returns whether a choice that is fixed is one of several stages.
bool Space::needsStages() const {
  const CompileOptions &o = request_.options;
  Schedule schedule = o.scheduleKind();
  return (!request_.free.schedule && (schedule == Schedule::Interleaved || schedule == Schedule::ZeroBubble)) ||
         (!request_.free.virtualStages && o.chunks() > 1) || o.stages.size() > 1;
}

std::vector<int64_t> Space::stages(const Layout &layout, int64_t layers) const {
  const CompileOptions &o = request_.options;
  std::vector<int64_t> list;
  const int64_t ranks = request_.gpus / (layout.tp * layout.cp);
  for (int64_t pp : request_.free.pp ? divisorsOf(ranks) : std::vector{o.pp}) {
    if (ranks % pp || (pp > 1 && pp > layers + 2) || (pp == 1 && needsStages()))
      continue;
    int64_t dp = ranks / pp, etp = std::max<int64_t>(1, layout.etp);
    if (!request_.free.dp && dp != o.dp)
      continue;
    if (layout.ep > 1 && (dp * layout.cp * layout.tp) % (layout.ep * etp))
      continue;
    if (o.globalBatch % dp)
      continue;
    list.push_back(pp);
  }
  return list;
}

std::vector<int64_t> Space::microBatches(int64_t dp) const {
  const int64_t rows = request_.options.globalBatch / dp;
  if (request_.free.microBatch) {
    std::vector<int64_t> sizes = divisorsOf(rows);
    std::erase_if(sizes, [&](int64_t size) { return rows / size > CompileOptions::kMostRuns; });
    return sizes;
  }
  return rows % request_.options.microBatch ? std::vector<int64_t>() : std::vector{request_.options.microBatch};
}

std::vector<int> Space::zeros(int64_t ranks) const {
  if (ranks == 1)
    return {0};
  if (!request_.free.zero)
    return {request_.options.zero.value_or(1)};
  return {1, 0, 2, 3};
}

std::vector<cost::Kept> Space::recomputes() const {
  if (!request_.free.recompute)
    return {machine_.choices.recompute};
  return {cost::Kept::All, cost::Kept::Selective, cost::Kept::Full};
}

std::vector<cost::Order> Space::orders(int64_t pp) const {
  if (pp == 1 && (request_.free.schedule || request_.options.scheduleKind() != Schedule::GPipe))
    return {cost::Order::OneFOneB};
  if (!request_.free.schedule)
    return {predict::orderOf(request_.options.scheduleKind())};
  if (!request_.free.virtualStages && request_.options.chunks() > 1)
    return {cost::Order::Interleaved};
  if (!request_.free.virtualStages)
    return {cost::Order::OneFOneB, cost::Order::GPipe, cost::Order::ZeroBubble};
  return {cost::Order::OneFOneB, cost::Order::GPipe, cost::Order::Interleaved, cost::Order::ZeroBubble};
}

std::vector<int64_t> Space::chunks(int64_t pp, int64_t layers) const {
  if (!request_.free.virtualStages)
    return {std::max<int64_t>(2, request_.options.chunks())};
  std::vector<int64_t> counts;
  for (int64_t v = 2; v * pp <= layers + 2; ++v)
    counts.push_back(v);
  return counts;
}

void Space::apply(const Candidate &candidate, CompileOptions &options, cost::Machine &machine) const {
  const Layout &layout = candidate.layout;
  cost::Choices &c = machine.choices;
  options.dp = candidate.dp, options.pp = candidate.pp, options.tp = layout.tp, options.cp = layout.cp;
  options.ep = layout.ep, options.etp = layout.etp, options.edp = 0;
  options.microBatch = candidate.microBatch;
  options.globalBatch = candidate.microBatch * candidate.microBatches * candidate.dp;
  options.zero = candidate.zero;
  options.sequenceParallel = layout.tp > 1 ? std::optional(layout.sequenceParallel) : std::nullopt;
  options.recompute = predict::recomputeOf(candidate.recompute);
  options.stages = candidate.stages;
  options.schedule.reset(), options.virtualStages.reset();
  if (candidate.pp > 1 || candidate.order == cost::Order::GPipe)
    options.schedule = predict::scheduleOf(candidate.order);
  if (candidate.chunks > 1)
    options.virtualStages = candidate.chunks;
  if (request_.free.gradients) {
    c.gradients = c.reduced = layout.gradients;
    options.gradDtype = predict::precisionOf(layout.gradients);
  }
  c.mesh = options.meshSizes(layout.ep > 1);
  c.chunks = candidate.chunks;
  c.microBatch = candidate.microBatch;
  c.microBatches = candidate.microBatches;
  c.stages = candidate.stages;
  c.order = candidate.order;
  c.zero = candidate.zero;
  c.sequenceParallel = layout.tp > 1 && layout.sequenceParallel;
  c.recompute = candidate.recompute;
  c.recomputed = 1;
}
