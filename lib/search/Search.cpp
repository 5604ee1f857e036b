#include "lib/search/Search.h"

#include "lib/cost/Bound.h"
#include "lib/search/RowBounds.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <queue>
#include <set>

using namespace llmc;
using namespace llmc::search;

namespace {

// Orders what is left to do by the seconds that it takes at least.
struct Work {
  // Is a layout whose tables have not been read, by its next rows of a micro-batch; rows of a micro-batch of a layout; a plan by
  // its bound, by an estimate of its passes and then of its order, by its table, or exactly.
  enum Kind : uint8_t { OfLayout, OfRows, Bounded, OfPasses, Estimated, Priced, Exact } kind;
  double seconds;
  int64_t number; // in the order in which it was found: of equal ones the first
  Candidate candidate;
  size_t found = 0; // of those that were priced exactly
  bool operator<(const Work &o) const { return std::pair(seconds, number) > std::pair(o.seconds, o.number); }
};

class Searcher {
public:
  Searcher(predict::RaisedModels &models, const Request &request, const cost::Machine &machine, size_t count)
      : models_(models), request_(request), machine_(machine), space_(request_, machine), readers_(models),
        tables_(readers_, request_, machine, space_), passes_(request_, machine, space_, tables_), count_(count) {}

  std::optional<Result> run();

private:
  using Mesh = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  static Mesh meshOf(const Candidate &c) { return {c.dp, c.pp, c.layout.tp, c.layout.cp, c.layout.ep, c.layout.etp}; }
  using Plans = std::vector<std::pair<double, Candidate>>; // with bounds

  void push(Work work) {
    work.number = next_++;
    work_.push(std::move(work));
  }
  int64_t countPlans(const Layout &layout) const;
  std::optional<TableKey> standInOf(const Layout &layout) const;
  void addLayouts(const std::vector<Layout> &layouts);
  void takeLayouts(const std::vector<Layout> &layouts);
  void readLayouts(const std::vector<Layout> &layouts);
  void boundUnread(const std::vector<Layout> &layouts);
  bool readRows(RowBounds &bounds);
  Plans boundPlans(const Candidate &rows);
  void expand(const std::vector<Candidate> &rows);
  bool mayFit(const Candidate &plan);
  const cost::Table &statesOf(const Candidate &candidate);
  double leastPeak(const cost::Table &states, const Candidate &candidate) const;
  void keepThatMayFit(std::vector<Work> &works);
  void estimate(const std::vector<Work> &works);
  void price(const std::vector<Candidate> &candidates);
  void priceExactly(const std::vector<Candidate> &candidates);
  cost::Machine machineOf(const Candidate &candidate, CompileOptions &options) const { return passes_.machineOf(candidate, options); }
  void lack(const Candidate &candidate, double peak);
  int64_t rowsOfStep() const;
  bool isDue(const Work &next) const;
  bool step();
  void addLater(std::vector<Work> &batch);
  void take(const std::vector<Work> &batch);
  void findNearest();
  void finish();

  predict::RaisedModels &models_;
  Request request_;
  const cost::Machine &machine_;
  Space space_;
  Readers readers_;
  SampledTables tables_;
  Passes passes_;
  const size_t count_;
  std::priority_queue<Work> work_;
  std::vector<Work> estimated_, priced_; // that wait to be priced by their tables, and exactly
  int64_t next_ = 0;
  std::set<Layout> read_;
  std::map<Layout, int64_t> boundedBy_; // layouts that have not been read, by the ranks of a row of what stood in for them
  std::set<Mesh> done_;
  std::map<Mesh, double> least_; // bytes, of meshes none of whose plans has fitted
  std::map<Mesh, std::string> refused_;
  std::vector<Found> exact_; // plans that were priced exactly
  // Holds, of each layout, stages and stage of ZeRO, the most rows of a micro-batch of which some plan may fit, and the fewest of
  // which none does.
  std::map<std::tuple<Layout, int64_t, int>, std::pair<int64_t, int64_t>> limits_;
  std::map<std::tuple<Layout, int, int64_t, int64_t, cost::Kept, bool>, cost::Table> memory_; // stage of ZeRO, dp, rows
  std::optional<std::pair<double, Candidate>> nearest_;
  Result result_;
};

// Counts the plans of a layout.
int64_t Searcher::countPlans(const Layout &layout) const {
  int64_t count = 0;
  for (int64_t pp : space_.stages(layout, passes_.layers())) {
    const int64_t dp = space_.dataRanks(layout, pp), states = int64_t(space_.zeros(dp * layout.cp).size() * space_.recomputes().size());
    for (int64_t rows : space_.microBatches(dp))
      for (cost::Order order : space_.orders(pp))
        for (int64_t chunks : order == cost::Order::Interleaved ? space_.chunks(pp, passes_.layers()) : std::vector<int64_t>{1})
          if (passes_.allows({layout, dp, pp, chunks, rows, request_.options.globalBatch / (dp * rows), order, 0, cost::Kept::All, {}}))
            count += states;
  }
  return count;
}

// Returns the tables from which a layout is bounded before its own are read: ranks that share out the tokens of a row have as
// many as fewer ranks of a part of the rows, and exchange keys and values with more. Of those that have been read, the one with
// the most ranks; before any has, the one with the fewest, which is read first.
std::optional<TableKey> Searcher::standInOf(const Layout &layout) const {
  if (!passes_.isOurs() || !request_.free.cp)
    return std::nullopt;
  std::optional<TableKey> standIn;
  Layout fewer = layout;
  for (int64_t cp : divisorsOf(layout.cp)) {
    fewer.cp = cp;
    if (cp < layout.cp && (!standIn || read_.contains(fewer)))
      if (auto key = passes_.firstOf(fewer))
        standIn = key;
  }
  return standIn;
}

// Lets layouts wait for their turn: those that nothing stands in for are read.
void Searcher::addLayouts(const std::vector<Layout> &layouts) {
  std::vector<Layout> own, others;
  for (const Layout &layout : layouts)
    if (passes_.firstOf(layout))
      (standInOf(layout) ? others : own).push_back(layout);
  readLayouts(own);
  boundUnread(others);
}

// Takes layouts that are due: reads them, or bounds them again where what stands in for them by now bounds them better.
void Searcher::takeLayouts(const std::vector<Layout> &layouts) {
  std::vector<Layout> due, again;
  for (const Layout &layout : layouts)
    (standInOf(layout)->layout.cp > boundedBy_.at(layout) ? again : due).push_back(layout);
  boundUnread(again);
  readLayouts(due);
}

// Reads the tables of the passes of layouts, and lets their rows wait for their turn.
void Searcher::readLayouts(const std::vector<Layout> &layouts) {
  std::vector<RowBounds> bounds;
  std::vector<size_t> left;
  for (const Layout &layout : layouts) {
    left.push_back(bounds.size());
    bounds.emplace_back(request_, space_, tables_, passes_, layout, *passes_.firstOf(layout));
  }
  while (!left.empty()) {
    std::set<TableKey> samples;
    for (size_t i : left)
      for (int64_t rows : bounds[i].rows()) {
        TableKey key = bounds[i].key();
        key.microBatch = rows;
        for (const TableKey &sample : tables_.samplesOf(key, /*forPasses=*/true))
          samples.insert(sample);
      }
    tables_.read({samples.begin(), samples.end()});
    std::vector<char> isKnown(left.size());
    readers_.run(left.size(), [&](predict::RaisedModels &, size_t i) { isKnown[i] = bounds[left[i]].find(); });
    std::vector<size_t> unknown;
    for (size_t i = 0; i < left.size(); ++i)
      if (!isKnown[i])
        unknown.push_back(left[i]);
    left.clear();
    // Takes other samples where some have other kernels; else reads each number of rows.
    for (size_t i : unknown)
      if (tables_.leaveOutLeast(layouts[i], /*forPasses=*/true))
        left.push_back(i);
      else if (const Layout &layout = layouts[i]; !readRows(bounds[i]))
        for (int64_t pp : space_.stages(layout, passes_.layers()))
          refused_[{space_.dataRanks(layout, pp), pp, layout.tp, layout.cp, layout.ep, layout.etp}] = tables_.why();
  }
  for (const RowBounds &own : bounds) {
    read_.insert(own.layout());
    for (size_t row = 0; row < own.seconds().size(); ++row)
      if (std::isfinite(own.seconds()[row]))
        push({Work::OfRows, own.seconds()[row], 0, {.layout = own.layout(), .microBatch = own.rows()[row], .stages = {}}});
  }
}

// Lets layouts wait for their turn by tables of those that stand in for them.
void Searcher::boundUnread(const std::vector<Layout> &layouts) {
  std::vector<RowBounds> bounds;
  for (const Layout &layout : layouts) {
    bounds.emplace_back(request_, space_, tables_, passes_, layout, *standInOf(layout));
    boundedBy_[layout] = bounds.back().key().layout.cp;
  }
  std::vector<char> isKnown(layouts.size());
  readers_.run(layouts.size(), [&](predict::RaisedModels &, size_t i) { isKnown[i] = bounds[i].find(); });
  for (size_t i = 0; i < layouts.size(); ++i) {
    // Reads it next where nothing is known of it.
    double least = isKnown[i] ? *llvm::min_element(bounds[i].seconds()) : 0;
    if (std::isfinite(least))
      push({Work::OfLayout, least, 0, {.layout = layouts[i], .stages = {}}});
  }
}

// Reads for each number of rows what cannot be interpolated. False if the model refuses it.
bool Searcher::readRows(RowBounds &bounds) {
  for (int64_t rows : bounds.rows())
    for (cost::Kept kept : space_.recomputes())
      for (bool isSplit : {false, true}) {
        TableKey key = bounds.key();
        key.microBatch = rows;
        if (isSplit)
          key.staging = Staging::Split;
        if (!isSplit || passes_.splits())
          if (auto table = tables_.at(key, kept, /*forPasses=*/true))
            bounds.set(rows, kept, isSplit, std::move(*table));
      }
  return bounds.find();
}

// Returns whether some plan of the mesh, rows and stage of ZeRO of `plan` may fit, which it then is; what needs least has one
// micro-batch for each stage behind, and most of all computed again.
bool Searcher::mayFit(const Candidate &plan) {
  auto &[fits, lacks] = limits_[{plan.layout, plan.pp, plan.zero}];
  if (plan.microBatch <= fits || (lacks && plan.microBatch >= lacks))
    return plan.microBatch <= fits;
  Candidate least = plan;
  least.chunks = 1, least.order = cost::Order::OneFOneB, least.recompute = space_.recomputes().back();
  if (passes_.split(plan.pp, 1).empty())
    return true;
  double peak = leastPeak(statesOf(least), least);
  if (peak <= cost::usableMemory(machine_.cluster)) {
    fits = plan.microBatch;
    return true;
  }
  lacks = plan.microBatch;
  // Names a plan that is asked for.
  least.order = space_.orders(plan.pp).front();
  if (least.order == cost::Order::Interleaved) {
    std::vector<int64_t> chunks = space_.chunks(plan.pp, passes_.layers());
    if (chunks.empty())
      return false;
    least.chunks = chunks.front();
  }
  if (!passes_.split(plan.pp, least.chunks).empty())
    lack(least, peak);
  return false;
}

// Returns the plans of a layout and rows that may fit, with bounds.
Searcher::Plans Searcher::boundPlans(const Candidate &rows) {
  Plans plans;
  const TableKey from = *passes_.firstOf(rows.layout);
  std::map<std::pair<cost::Kept, bool>, std::optional<cost::Table>> tables; // of what is recomputed; whether that is split
  // Holds bounds by what they depend on: what is recomputed, whether sums are left out, and the order.
  std::map<std::tuple<cost::Kept, bool, cost::Order>, cost::StepBound> bounds;
  for (int64_t pp : space_.stages(rows.layout, passes_.layers())) {
    const int64_t dp = space_.dataRanks(rows.layout, pp);
    if (!llvm::is_contained(space_.microBatches(dp), rows.microBatch))
      continue;
    Candidate plan{rows.layout, dp, pp, 1, rows.microBatch, request_.options.globalBatch / (dp * rows.microBatch), cost::Order::OneFOneB, 0, cost::Kept::All, {}};
    CompileOptions options = request_.options;
    for (int zero : space_.zeros(dp * rows.layout.cp)) {
      plan.zero = zero, plan.chunks = 1;
      if (passes_.isOurs() && !mayFit(plan))
        continue;
      cost::Machine machine = machineOf(plan, options);
      for (cost::Kept kept : space_.recomputes())
        for (cost::Order order : space_.orders(pp)) {
          plan.recompute = machine.choices.recompute = kept;
          plan.order = machine.choices.order = order;
          const bool leavesOut = passes_.isOurs() && zero >= 2 && from.zero < 2, isSplit = passes_.isSplit(plan);
          auto [made, isUnknown] = tables.try_emplace({kept, isSplit});
          if (isUnknown)
            made->second = passes_.of(plan);
          if (!made->second) {
            refused_[meshOf(plan)] = tables_.why();
            continue;
          }
          const cost::Table &table = *made->second;
          auto bound = bounds.find({kept, leavesOut, order});
          if (bound == bounds.end()) {
            cost::PartPrices prices = cost::priceParts(table, machine);
            if (leavesOut)
              leaveOutSums(prices, table, machine);
            bound = bounds.emplace(std::tuple(kept, leavesOut, order), cost::StepBound(prices, table, machine)).first;
          }
          // Takes tables of several stages for one: kernels that are joined otherwise take up to half a percent less.
          const double slack = isSplit || passes_.stagingOf(pp, order) == from.staging ? 1 : 0.99;
          for (int64_t chunks : order == cost::Order::Interleaved ? space_.chunks(pp, passes_.layers()) : std::vector<int64_t>{1}) {
            plan.chunks = machine.choices.chunks = chunks;
            if (passes_.allows(plan))
              plans.emplace_back(slack * bound->second.of(passes_.split(pp, chunks), machine), plan);
          }
        }
    }
  }
  return plans;
}

// Lets the plans of layouts and rows wait for their turn.
void Searcher::expand(const std::vector<Candidate> &groups) {
  for (const Candidate &rows : groups)
    for (auto &[seconds, plan] : boundPlans(rows)) {
      ++result_.bounded;
      push({Work::Bounded, seconds, 0, plan});
    }
}

// Returns the states and what is kept of the passes of a plan.
const cost::Table &Searcher::statesOf(const Candidate &candidate) {
  auto [at, isNew] = memory_.try_emplace({candidate.layout, candidate.zero, candidate.dp, candidate.microBatch, candidate.recompute, passes_.isSplit(candidate)});
  if (isNew)
    if (auto table = passes_.of(candidate))
      at->second = passes_.statesOf(*table, candidate);
  return at->second;
}

// Returns bytes that a plan needs no less than, by its states.
double Searcher::leastPeak(const cost::Table &states, const Candidate &candidate) const {
  return states.kinds.empty() ? 0 : passes_.leastPeak(states, candidate);
}

// Leaves out plans that need more memory than there is, each looked at on a core.
void Searcher::keepThatMayFit(std::vector<Work> &works) {
  std::vector<const cost::Table *> states;
  for (const Work &work : works)
    states.push_back(&statesOf(work.candidate));
  std::vector<double> peaks(works.size());
  readers_.run(works.size(), [&](predict::RaisedModels &, size_t i) { peaks[i] = leastPeak(*states[i], works[i].candidate); });
  std::vector<Work> kept;
  for (size_t i = 0; i < works.size(); ++i)
    if (peaks[i] > cost::usableMemory(machine_.cluster))
      lack(works[i].candidate, peaks[i]);
    else
      kept.push_back(works[i]);
  works = std::move(kept);
}

// Estimates the steps of plans, each on a core, from passes of their layouts with states by arithmetic.
void Searcher::estimate(const std::vector<Work> &works) {
  std::vector<std::optional<cost::Table>> tables;
  std::vector<Candidate> candidates;
  for (const Work &work : works) {
    tables.push_back(passes_.of(work.candidate));
    candidates.push_back(passes_.withStages(work.candidate));
  }
  std::vector<double> steps(works.size());
  readers_.run(works.size(), [&](predict::RaisedModels &, size_t i) {
    if (!tables[i])
      return;
    CompileOptions options = request_.options;
    cost::Machine machine = machineOf(candidates[i], options);
    cost::Table table = cost::withStates(*tables[i], machine.choices, /*hasWork=*/true);
    cost::PartPrices prices = cost::priceParts(table, machine);
    if (machine.choices.zero >= 2 && passes_.firstOf(candidates[i].layout)->zero < 2)
      leaveOutSums(prices, table, machine);
    steps[i] = cost::predictStep(prices, table, machine, /*isBound=*/works[i].kind != Work::OfPasses).step;
  });
  for (size_t i = 0; i < works.size(); ++i)
    push({works[i].kind == Work::OfPasses ? Work::Estimated : Work::OfPasses, std::max(works[i].seconds, kSure * steps[i]), 0, works[i].candidate});
}

// Remembers that a plan needs more memory than there is.
void Searcher::lack(const Candidate &candidate, double peak) {
  auto [at, isNew] = least_.try_emplace(meshOf(candidate), peak);
  at->second = std::min(at->second, peak);
  if (!nearest_ || peak < nearest_->first)
    nearest_ = {peak, passes_.withStages(candidate)};
}

// Prices plans by their tables, each on a core, without what an arena holds beside states and slots.
void Searcher::price(const std::vector<Candidate> &waiting) {
  std::vector<Candidate> candidates;
  for (const Candidate &candidate : waiting)
    candidates.push_back(passes_.withStages(candidate));
  std::vector<TableKey> keys, samples;
  for (const Candidate &candidate : candidates) {
    keys.push_back(passes_.keyOf(candidate));
    for (const TableKey &sample : tables_.samplesOf(keys.back(), /*forPasses=*/false))
      samples.push_back(sample);
  }
  tables_.read(samples);
  std::vector<std::optional<cost::Table>> tables;
  for (size_t i = 0; i < candidates.size(); ++i)
    tables.push_back(tables_.at(keys[i], candidates[i].recompute));
  std::vector<double> peaks(candidates.size()), steps(candidates.size());
  readers_.run(candidates.size(), [&](predict::RaisedModels &, size_t i) {
    if (!tables[i])
      return;
    CompileOptions options = request_.options;
    cost::Machine machine = machineOf(candidates[i], options);
    peaks[i] = peakOf(cost::predictMemory(*tables[i], machine));
    if (peaks[i] <= cost::usableMemory(machine.cluster))
      steps[i] = cost::predictStep(*tables[i], machine).step;
  });
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!tables[i])
      continue;
    if (peaks[i] > cost::usableMemory(machine_.cluster)) {
      lack(candidates[i], peaks[i]);
      continue;
    }
    ++result_.priced;
    push({Work::Priced, steps[i], 0, candidates[i]});
  }
}

// Reads the tables and arenas of plans, each on a core, and prices them by these.
void Searcher::priceExactly(const std::vector<Candidate> &waiting) {
  std::vector<Candidate> candidates;
  for (const Candidate &candidate : waiting)
    candidates.push_back(passes_.withStages(candidate));
  std::vector<std::optional<Found>> found(candidates.size());
  std::vector<std::string> refusals(candidates.size());
  readers_.run(candidates.size(), [&](predict::RaisedModels &models, size_t i) {
    CompileOptions options = request_.options;
    cost::Machine machine = machineOf(candidates[i], options);
    refusals[i] = firstError(models.context(), [&] {
      auto prediction = predict::readPrediction(models, options, machine, /*choosesRecompute=*/false);
      if (!prediction || !predict::price(*prediction))
        return;
      prediction->workspace.reset(); // belongs to this thread's context
      found[i] = Found{candidates[i], options, std::move(*prediction)};
    });
  });
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) {
      refused_[meshOf(candidates[i])] = refusals[i];
      continue;
    }
    double peak = peakOf(found[i]->prediction.memory), step = found[i]->prediction.time.step;
    if (peak > cost::usableMemory(machine_.cluster)) {
      lack(candidates[i], peak);
      continue;
    }
    exact_.push_back(std::move(*found[i]));
    push({Work::Exact, step, 0, candidates[i], exact_.size() - 1});
  }
}

// Predicts what needs the least memory of all, where nothing fits.
void Searcher::findNearest() {
  CompileOptions options = request_.options;
  cost::Machine machine = machineOf(nearest_->second, options);
  firstError(models_.context(), [&] {
    auto prediction = predict::readPrediction(models_, options, machine, /*choosesRecompute=*/false);
    if (!prediction || !predict::price(*prediction))
      return;
    prediction->workspace.reset();
    result_.nearest = Found{nearest_->second, options, std::move(*prediction)};
  });
}

// Says of each mesh that none was found of why.
void Searcher::finish() {
  for (const auto &[mesh, peak] : least_) {
    char text[160];
    snprintf(text, sizeof text, "needs %.4g GiB at least of those tried, and a run may use %.4g GiB of %s", peak / (1 << 30),
             cost::usableMemory(machine_.cluster) / (1 << 30), machine_.cluster.name.c_str());
    refused_.try_emplace(mesh, text);
  }
  for (const auto &[mesh, reason] : refused_)
    if (auto [dp, pp, tp, cp, ep, etp] = mesh; !done_.contains(mesh))
      result_.rejected.push_back({{dp, pp, tp, cp, ep, etp}, reason});
  result_.tables = tables_.count();
}

// Returns the rows of a step where nobody says how many: what large models are trained with, a power of two.
int64_t Searcher::rowsOfStep() const {
  if (machine_.cluster.generation == cost::Generation::Cpu)
    return 4 * request_.gpus;
  const int64_t tokens = std::max<int64_t>(1, tables_.model().sequence), fixed = request_.options.dp * request_.options.microBatch;
  int64_t rows = 1;
  while (rows * tokens < (int64_t(4) << 20) && rows < 64 * request_.gpus)
    rows *= 2;
  return (rows + fixed - 1) / fixed * fixed;
}

// Returns whether plans that wait are to be priced before what takes least of all that is left. What reads tables and arenas
// takes longest of all work: plans wait for others, one for each core, that may be about as fast.
bool Searcher::isDue(const Work &next) const {
  constexpr double about = 1.02;
  return llvm::any_of(std::array{&estimated_, &priced_}, [&](const std::vector<Work> *held) {
    return !held->empty() && (held->size() >= readers_.threads() || next.kind == Work::Exact || next.seconds > about * held->front().seconds);
  });
}

// Takes what takes least of all that is left, several at once where that is one kind of work. False if nothing is left.
bool Searcher::step() {
  std::vector<Work> batch;
  auto most = [&](Work::Kind kind) { return (kind == Work::OfRows ? 8 : kind == Work::Bounded ? 32 : 1) * readers_.threads(); };
  while (!work_.empty() && !isDue(work_.top()) &&
         (batch.empty() || (work_.top().kind == batch.front().kind && batch.size() < most(batch.front().kind)))) {
    const Work work = work_.top();
    work_.pop();
    if (work.kind >= Work::Bounded && done_.contains(meshOf(work.candidate)))
      continue;
    (work.kind == Work::Priced ? priced_ : work.kind == Work::Estimated ? estimated_ : batch).push_back(work);
    if (work.kind == Work::Exact)
      break;
  }
  if (batch.empty())
    batch = std::exchange(estimated_.empty() ? priced_ : estimated_, {});
  if (!batch.empty() && batch.front().kind == Work::Bounded && passes_.isOurs()) {
    keepThatMayFit(batch);
    if (batch.empty())
      return true;
  }
  if (!batch.empty() && (batch.front().kind == Work::OfLayout || batch.front().kind == Work::OfPasses || batch.front().kind == Work::Priced))
    addLater(batch);
  if (!batch.empty())
    take(batch);
  return !batch.empty() || !work_.empty() || !priced_.empty() || !estimated_.empty();
}

// Adds works of the same kind that will be due soon, for cores that would have nothing to do.
void Searcher::addLater(std::vector<Work> &batch) {
  constexpr size_t most = 64; // works that are looked at
  std::vector<Work> others;
  while (!work_.empty() && others.size() < most && batch.size() < readers_.threads()) {
    const Work work = work_.top();
    work_.pop();
    const bool isDone = work.kind >= Work::Bounded && done_.contains(meshOf(work.candidate));
    if (!isDone)
      (work.kind == batch.front().kind && work.seconds < kLate ? batch : others).push_back(work);
  }
  for (const Work &work : others)
    work_.push(work);
}

// Takes works of one kind a step further.
void Searcher::take(const std::vector<Work> &batch) {
  std::vector<Candidate> candidates;
  for (const Work &work : batch)
    candidates.push_back(work.candidate);
  switch (batch.front().kind) {
  case Work::OfLayout: {
    std::vector<Layout> layouts;
    for (const Candidate &candidate : candidates)
      layouts.push_back(candidate.layout);
    return takeLayouts(layouts);
  }
  case Work::OfRows:
    return expand(candidates);
  case Work::Bounded:
  case Work::OfPasses:
    return passes_.isOurs() ? estimate(batch) : price(candidates);
  case Work::Estimated:
    return price(candidates);
  case Work::Priced:
    return priceExactly(candidates);
  case Work::Exact:
    result_.found.push_back(std::move(exact_[batch.front().found]));
    done_.insert(meshOf(candidates.front()));
  }
}

std::optional<Result> Searcher::run() {
  auto begin = std::chrono::steady_clock::now();
  // Reads the model with one rank first, which tells of what it consists; beside it what another thread can read.
  TableKey alone{{.gradients = machine_.choices.gradients}, Staging::Single, 0, 1, 1}, twoRows = alone;
  twoRows.microBatch = 2;
  if (request_.free.microBatch)
    tables_.read({alone, twoRows});
  auto first = tables_.at(alone, space_.recomputes().front());
  if (!first) {
    mlir::emitError(mlir::UnknownLoc::get(&models_.context())) << tables_.why();
    return std::nullopt;
  }
  passes_.divide(int64_t(first->layers.size()));
  if (!request_.options.globalBatch)
    request_.options.globalBatch = rowsOfStep();
  result_.globalBatch = request_.options.globalBatch;
  std::vector<Layout> layouts = space_.layouts(tables_.model().sequence, std::max<int64_t>(1, std::llround(first->experts)));
  for (const Layout &layout : layouts)
    result_.candidates += countPlans(layout);
  addLayouts(layouts);
  while (result_.found.size() < count_ && step())
    ;
  // Tables that are interpolated say little more or less than those that are read.
  std::stable_sort(result_.found.begin(), result_.found.end(),
                   [](const Found &a, const Found &b) { return a.prediction.time.step < b.prediction.time.step; });
  if (result_.found.empty() && nearest_)
    findNearest();
  finish();
  result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::move(result_);
}

} // namespace

std::optional<Result> search::search(predict::RaisedModels &models, const Request &request, const cost::Machine &machine,
                                     size_t count) {
  return Searcher(models, request, machine, count).run();
}
