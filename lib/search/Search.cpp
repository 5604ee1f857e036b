#include "lib/search/Search.h"

#include "lib/cost/Bound.h"
#include "lib/search/SampledTables.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
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
        tables_(readers_, request_, machine, space_), count_(count), isOurs_(machine.choices.software == cost::Profile::Llmc) {}

  std::optional<Result> run();

private:
  using Mesh = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  static Mesh meshOf(const Candidate &c) { return {c.dp, c.pp, c.layout.tp, c.layout.cp, c.layout.ep, c.layout.etp}; }
  using Plans = std::vector<std::pair<double, Candidate>>; // with bounds

  void push(Work work) {
    work.number = next_++;
    work_.push(std::move(work));
  }
  std::optional<TableKey> firstOf(const Layout &layout) const;
  std::vector<int64_t> rowsOf(const Layout &layout) const;
  std::optional<TableKey> standInOf(const Layout &layout) const;
  void addLayouts(const std::vector<Layout> &layouts);
  void boundRows(const std::vector<Layout> &layouts, bool byStandIns);
  // Holds bounds of a layout for each number of rows, by tables of a layout and the share of rows that it has of them.
  struct RowBounds {
    Layout layout;
    TableKey key;
    double share;
    std::vector<int64_t> rows;
    std::map<std::tuple<int64_t, cost::Kept, bool>, cost::Table> tables; // by rows; whether gradients of weights are apart
    std::map<std::pair<const cost::Table *, bool>, cost::PartPrices> prices; // of these; whether sums are left out
    std::vector<double> seconds;
    bool isKnown = false;
  };
  void bound(RowBounds &job) const;
  template <class Visit>
  void visitOrders(RowBounds &job, Candidate plan, const std::vector<cost::Order> &orders, const cost::Table &table, Visit visit) const;
  double leastPeak(const cost::Table &passes, const Candidate &candidate) const;
  void readLayouts(const std::vector<Layout> &layouts);
  Plans boundPlans(const Candidate &rows, const std::map<std::pair<cost::Kept, bool>, cost::Table> &tables);
  void expand(const std::vector<Candidate> &rows);
  bool mayFit(const Candidate &plan);
  double leastPeak(const Candidate &candidate);
  TableKey passesKeyOf(const Candidate &candidate, bool isSplit = false) const;
  std::optional<cost::Table> passesOf(const Candidate &candidate, bool isSplit = false);
  void estimate(const std::vector<Work> &works);
  void price(const std::vector<Candidate> &candidates);
  void priceExactly(const std::vector<Candidate> &candidates);
  const std::vector<int64_t> &split(int64_t pp, int64_t chunks);
  Candidate withStages(Candidate candidate);
  cost::Machine machineOf(const Candidate &candidate, CompileOptions &options) const;
  // Says whether plans may have a zero-bubble schedule.
  bool splits() const { return isOurs_ && llvm::is_contained(space_.orders(2), cost::Order::ZeroBubble); }
  Staging stagingOf(int64_t pp, cost::Order order) const {
    return pp == 1 ? Staging::Single : order == cost::Order::ZeroBubble && isOurs_ ? Staging::Split : Staging::Several;
  }
  TableKey keyOf(const Candidate &c) const {
    // Other stacks share states out by arithmetic.
    return {c.layout, isOurs_ ? stagingOf(c.pp, c.order) : Staging::Single, isOurs_ ? c.zero : 0, c.dp, c.microBatch};
  }
  void lack(const Candidate &candidate, double peak);
  int64_t rowsOfStep() const;
  bool step();
  void take(const std::vector<Work> &batch);
  void findNearest();
  void finish();

  predict::RaisedModels &models_;
  Request request_;
  const cost::Machine &machine_;
  Space space_;
  Readers readers_;
  SampledTables tables_;
  const size_t count_;
  const bool isOurs_;
  std::priority_queue<Work> work_;
  int64_t next_ = 0, layers_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> splits_;
  std::map<Layout, std::vector<Layout>> waiting_; // layouts, by that which stands in for them
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
public:
  double stat[8][3] = {};
  double marks[4] = {};
};

cost::Machine Searcher::machineOf(const Candidate &candidate, CompileOptions &options) const {
  cost::Machine machine = machine_;
  space_.apply(candidate, options, machine);
  machine.choices.sequence = tables_.model().sequence;
  return machine;
}

// Is the share of an estimate of time or memory below which nothing of the plan is.
static constexpr double kSure = 0.98;

// Leaves out adding to sums of gradients, which later stages of ZeRO do elsewhere.
static void leaveOutSums(cost::PartPrices &prices, const cost::Table &table, const cost::Machine &machine) {
  for (size_t i = 0; i < prices.kinds.size(); ++i)
    prices.kinds[i].backward.exposed.compute -= machine.memory(8 * table.kinds[i].parameters.all());
}

static double peakOf(const std::vector<cost::MemoryParts> &stages) {
  double peak = 0;
  for (const cost::MemoryParts &stage : stages)
    peak = std::max(peak, stage.sum());
  return peak;
}

// Returns the layers of each virtual stage, as compile divides them; none where they cannot be divided so.
const std::vector<int64_t> &Searcher::split(int64_t pp, int64_t chunks) {
  auto [at, isNew] = splits_.try_emplace({pp, chunks});
  if (!isNew)
    return at->second;
  if (!request_.options.stages.empty()) {
    if (int64_t(request_.options.stages.size()) == pp * chunks)
      at->second = request_.options.stages;
  } else {
    cost::Choices choices = machine_.choices;
    choices.mesh.pp = pp, choices.chunks = chunks;
    at->second = predict::divideStages(tables_.model().costs, choices).value_or(std::vector<int64_t>());
  }
  return at->second;
}

// Adds the stages to a candidate, which one that waits leaves out.
Candidate Searcher::withStages(Candidate candidate) {
  if (candidate.pp > 1 && candidate.stages.empty())
    candidate.stages = split(candidate.pp, candidate.chunks);
  return candidate;
}

// Names the tables of a layout from which all of its plans are bounded: of several stages, and stage 1 of ZeRO, where it has
// such plans. Nullopt if it has no plan.
std::optional<TableKey> Searcher::firstOf(const Layout &layout) const {
  std::optional<TableKey> first;
  auto rank = [](const TableKey &key) { return std::pair(key.staging != Staging::Several, key.zero != 1); };
  for (int64_t pp : space_.stages(layout, layers_)) {
    const int64_t dp = space_.dataRanks(layout, pp);
    std::vector<int64_t> rows = space_.microBatches(dp);
    if (rows.empty())
      continue;
    for (int zero : space_.zeros(dp * layout.cp))
      for (cost::Order order : space_.orders(pp)) {
        TableKey key = keyOf({layout, dp, pp, 1, rows.front(), 1, order, zero, cost::Kept::All, {}});
        if (!first || rank(key) < rank(*first))
          first = key;
      }
  }
  return first;
}

// Returns the rows that a micro-batch of a layout may have.
std::vector<int64_t> Searcher::rowsOf(const Layout &layout) const {
  std::set<int64_t> rows;
  for (int64_t pp : space_.stages(layout, layers_))
    for (int64_t each : space_.microBatches(space_.dataRanks(layout, pp)))
      rows.insert(each);
  return {rows.begin(), rows.end()};
}

// Returns the tables from which a layout is bounded before its own are read: ranks that share out the tokens of a row have as
// many as fewer ranks of a part of the rows, and exchange keys and values with more.
std::optional<TableKey> Searcher::standInOf(const Layout &layout) const {
  if (!isOurs_ || !request_.free.cp || layout.cp == 1)
    return std::nullopt;
  Layout whole = layout;
  for (int64_t cp : divisorsOf(layout.cp))
    if (cp < layout.cp)
      whole.cp = cp;
  return firstOf(whole);
}

// Lets layouts wait for their turn: those that nothing stands in for are read, the others wait for what stands in for them.
void Searcher::addLayouts(const std::vector<Layout> &layouts) {
  std::vector<Layout> own;
  for (const Layout &layout : layouts)
    if (firstOf(layout)) {
      if (auto from = standInOf(layout))
        waiting_[from->layout].push_back(layout);
      else
        own.push_back(layout);
    }
  readLayouts(own);
}

// Reads the tables of the passes of layouts, and lets their rows wait for their turn.
void Searcher::readLayouts(const std::vector<Layout> &layouts) {
  std::vector<TableKey> keys;
  for (const Layout &layout : layouts)
    for (int64_t rows : rowsOf(layout)) {
      TableKey key = *firstOf(layout);
      key.microBatch = rows;
      for (const TableKey &sample : tables_.samplesOf(key, /*forPasses=*/true))
        if (!llvm::is_contained(keys, sample))
          keys.push_back(sample);
    }
  tables_.read(keys);
  boundRows(layouts, /*byStandIns=*/false);
  std::vector<Layout> next;
  for (const Layout &layout : layouts)
    if (auto waiting = waiting_.find(layout); waiting != waiting_.end())
      next.insert(next.end(), waiting->second.begin(), waiting->second.end());
  boundRows(next, /*byStandIns=*/true);
}

// Bounds the plans of each layout and number of rows by what its ranks compute: with any number of stages, those of a layout
// have passes of as many layers of as many micro-batches. What is computed again only adds to it, but lets more plans fit.
void Searcher::boundRows(const std::vector<Layout> &layouts, bool byStandIns) {
  std::vector<RowBounds> jobs;
  for (const Layout &layout : layouts)
    jobs.push_back({layout, byStandIns ? *standInOf(layout) : *firstOf(layout), byStandIns ? double(standInOf(layout)->layout.cp) / double(layout.cp) : 1, rowsOf(layout), {}, {}, {}});
  for (const Layout &layout : layouts) // so that threads only read what is divided
    for (int64_t pp : space_.stages(layout, layers_))
      if (pp > 1) {
        split(pp, 1);
        for (int64_t chunks : space_.chunks(pp, layers_))
          split(pp, chunks);
      }
  readers_.run(jobs.size(), [&](predict::RaisedModels &, size_t i) { bound(jobs[i]); });
  for (RowBounds &job : jobs) {
    if (!job.isKnown && !byStandIns) { // reads what cannot be interpolated
      for (int64_t rows : job.rows)
        for (cost::Kept kept : space_.recomputes())
          for (Staging staging : {job.key.staging, Staging::Split}) {
            TableKey key = job.key;
            key.microBatch = rows, key.staging = staging;
            if (staging == job.key.staging || splits())
              if (auto table = tables_.at(key, kept, /*forPasses=*/true))
                job.tables.insert_or_assign({rows, kept, staging != job.key.staging}, *table);
          }
      bound(job);
    }
    if (!job.isKnown && !byStandIns)
      for (int64_t pp : space_.stages(job.layout, layers_))
        refused_[{space_.dataRanks(job.layout, pp), pp, job.layout.tp, job.layout.cp, job.layout.ep, job.layout.etp}] = tables_.why();
    double least = std::numeric_limits<double>::infinity();
    if (getenv("DBG")) fprintf(stderr, "L %s tp%ld cp%ld ep%ld etp%ld sp%d %.4g\n", byStandIns ? "stand" : "own", job.layout.tp, job.layout.cp, job.layout.ep, job.layout.etp, job.layout.sequenceParallel, job.seconds.empty() ? 0 : *std::min_element(job.seconds.begin(), job.seconds.end()));
    for (size_t i = 0; i < job.seconds.size(); ++i) {
      least = std::min(least, job.seconds[i]);
      if (!byStandIns && std::isfinite(job.seconds[i]))
        push({Work::OfRows, job.seconds[i], 0, {.layout = job.layout, .microBatch = job.rows[i], .stages = {}}});
    }
    if (byStandIns && least < std::numeric_limits<double>::infinity())
      push({Work::OfLayout, job.isKnown ? least : 0, 0, {.layout = job.layout, .stages = {}}});
  }
}

// Bounds the rows of one layout; from several threads at once.
void Searcher::bound(RowBounds &job) const {
  const std::vector<cost::Kept> recomputes = space_.recomputes();
  std::string why;
  auto tableOf = [&](size_t row, cost::Kept kept, bool isSplit) -> const cost::Table * {
    auto found = job.tables.find({job.rows[row], kept, isSplit});
    if (found == job.tables.end()) {
      TableKey key = job.key;
      key.microBatch = job.rows[row];
      if (isSplit)
        key.staging = Staging::Split;
      auto table = tables_.interpolate(key, kept, /*forPasses=*/true, why, job.share);
      if (!table)
        return nullptr;
      found = job.tables.emplace(std::tuple(job.rows[row], kept, isSplit), std::move(*table)).first;
    }
    return &found->second;
  };
  for (size_t row = 0; row < job.rows.size(); ++row)
    if (!tableOf(row, recomputes.front(), false))
      return;
  job.isKnown = true;
  job.seconds.assign(job.rows.size(), std::numeric_limits<double>::infinity());
  for (int64_t pp : space_.stages(job.layout, layers_)) {
    const int64_t dp = space_.dataRanks(job.layout, pp);
    std::vector<int64_t> sizes = space_.microBatches(dp);
    // Bounds plans whose ranks share out sums of gradients apart from others, and those that split gradients of weights.
    for (bool sharesSums : {false, true}) {
      std::vector<int> zeros = space_.zeros(dp * job.layout.cp);
      std::erase_if(zeros, [&](int zero) { return (zero >= 2) != sharesSums; });
      if (zeros.empty())
        continue;
      if (!sharesSums)
        zeros = {*llvm::max_element(zeros)}; // stage 1 needs less than 0
      for (bool isSplit : {false, true}) {
        std::vector<cost::Order> orders = space_.orders(pp);
        std::erase_if(orders, [&](cost::Order order) { return (stagingOf(pp, order) == Staging::Split) != isSplit; });
        if (orders.empty())
          continue;
        auto planOf = [&](size_t row, size_t k, int zero) {
          return Candidate{job.key.layout, dp * job.layout.cp / job.key.layout.cp, pp, 1, job.rows[row],
                           std::max<int64_t>(1, request_.options.globalBatch / (dp * job.rows[row])),
                           isSplit ? cost::Order::ZeroBubble : cost::Order::OneFOneB, zero, recomputes[k], {}};
        };
        // Recomputes no more than makes some plan fit. More rows need more, so that what did not fit before does not fit again.
        size_t k = 0;
        for (size_t row = 0; row < job.rows.size(); ++row) {
          if (!llvm::is_contained(sizes, job.rows[row]))
            continue;
          auto fits = [&](Candidate plan, size_t kept) {
            const cost::Table *table = tableOf(row, recomputes[kept], isSplit);
            plan.recompute = recomputes[kept];
            return !table || llvm::any_of(zeros, [&](int zero) {
              plan.zero = zero;
              return leastPeak(*table, plan) <= cost::usableMemory(machine_.cluster);
            });
          };
          while (k < recomputes.size() && !fits(planOf(row, k, 0), k))
            ++k;
          for (size_t kept = std::min(k, recomputes.size() - 1); kept < recomputes.size(); ++kept)
            if (const cost::Table *table = tableOf(row, recomputes[kept], isSplit))
              visitOrders(job, planOf(row, kept, zeros.front()), orders, *table, [&](const Candidate &plan, double seconds) {
                // Keeps what does not fit for the end, where it says what is missing.
                if (k == recomputes.size() && isOurs_)
                  seconds += 1e9;
                if (seconds < job.seconds[row] && (plan.order == planOf(row, 0, 0).order || seconds > 1e9 || fits(plan, kept)))
                  job.seconds[row] = seconds;
              });
        }
      }
    }
  }
  job.tables.clear();
  job.prices.clear();
}

// Calls visit(plan, seconds) for the orders of a number of stages and rows, with bounds by the table of their passes.
template <class Visit>
void Searcher::visitOrders(RowBounds &job, Candidate plan, const std::vector<cost::Order> &orders, const cost::Table &table, Visit visit) const {
  const bool leavesOut = isOurs_ && plan.zero >= 2 && job.key.zero < 2;
  const double slack = job.share == 1 ? 0.99 : kSure;
  CompileOptions options = request_.options;
  for (cost::Order order : orders) {
    plan.order = order, plan.chunks = 1;
    cost::Machine machine = machineOf(plan, options);
    auto [priced, isNew] = job.prices.try_emplace({&table, leavesOut});
    if (isNew || !isOurs_) {
      priced->second = cost::priceParts(table, machine);
      if (leavesOut)
        leaveOutSums(priced->second, table, machine);
    }
    cost::StepBound bound(priced->second, table, machine);
    for (int64_t chunks : order == cost::Order::Interleaved ? space_.chunks(plan.pp, layers_) : std::vector<int64_t>{1}) {
      plan.chunks = machine.choices.chunks = chunks;
      if (chunks > 1 && plan.microBatches % plan.pp)
        continue;
      auto layers = splits_.find({plan.pp, chunks});
      const std::vector<int64_t> one{layers_};
      if (plan.pp == 1 || (layers != splits_.end() && !layers->second.empty()))
        visit(plan, slack * bound.of(plan.pp == 1 ? one : layers->second, machine));
    }
  }
}

// Returns bytes that a plan needs no less than, by the table of its passes.
double Searcher::leastPeak(const cost::Table &passes, const Candidate &candidate) const {
  if (!isOurs_)
    return 0;
  CompileOptions options = request_.options;
  Candidate whole = candidate;
  if (whole.pp > 1) {
    auto stages = splits_.find({whole.pp, whole.chunks});
    if (stages == splits_.end() || stages->second.empty())
      return 0;
    whole.stages = stages->second;
  }
  cost::Machine machine = machineOf(whole, options);
  return kSure * peakOf(cost::predictMemory(cost::withStates(passes, machine.choices, /*hasWork=*/false), machine));
}

// Returns whether some plan of the mesh, rows and stage of ZeRO of `plan` may fit, which it then is; what needs least has one
// micro-batch for each stage behind, and most of all computed again.
bool Searcher::mayFit(const Candidate &plan) {
  auto &[fits, lacks] = limits_[{plan.layout, plan.pp, plan.zero}];
  if (plan.microBatch <= fits || (lacks && plan.microBatch >= lacks))
    return plan.microBatch <= fits;
  Candidate least = plan;
  least.chunks = 1, least.order = cost::Order::OneFOneB, least.recompute = space_.recomputes().back();
  if (plan.pp > 1 && split(plan.pp, 1).empty())
    return true;
  double peak = leastPeak(least);
  if (peak <= cost::usableMemory(machine_.cluster)) {
    fits = plan.microBatch;
    return true;
  }
  lacks = plan.microBatch;
  // Names a plan that is asked for.
  least.order = space_.orders(plan.pp).front();
  if (least.order == cost::Order::Interleaved) {
    std::vector<int64_t> chunks = space_.chunks(plan.pp, layers_);
    if (chunks.empty())
      return false;
    least.chunks = chunks.front();
  }
  if (plan.pp == 1 || !split(plan.pp, least.chunks).empty())
    lack(least, peak);
  return false;
}

// Returns the plans of a layout and rows that may fit, with bounds by `tables` of what is recomputed and whether gradients of
// weights are apart.
Searcher::Plans Searcher::boundPlans(const Candidate &rows, const std::map<std::pair<cost::Kept, bool>, cost::Table> &tables) {
  Plans plans;
  const TableKey from = *firstOf(rows.layout);
  std::vector<cost::Kept> recomputes = space_.recomputes();
  // Holds bounds by what they depend on beside rows: what is recomputed, whether sums are left out, and the order of a plan.
  std::map<std::tuple<size_t, bool, cost::Order>, cost::StepBound> bounds;
  for (int64_t pp : space_.stages(rows.layout, layers_)) {
    const int64_t dp = space_.dataRanks(rows.layout, pp);
    if (!llvm::is_contained(space_.microBatches(dp), rows.microBatch))
      continue;
    Candidate plan{rows.layout, dp, pp, 1, rows.microBatch, request_.options.globalBatch / (dp * rows.microBatch), cost::Order::OneFOneB, 0, cost::Kept::All, {}};
    CompileOptions options = request_.options;
    for (int zero : space_.zeros(dp * rows.layout.cp)) {
      plan.zero = zero, plan.chunks = 1, plan.stages.clear();
      if (isOurs_ && !mayFit(plan))
        continue;
      cost::Machine machine = machineOf(plan, options);
      for (size_t i = 0; i < recomputes.size(); ++i)
        for (cost::Order order : space_.orders(pp)) {
          plan.recompute = machine.choices.recompute = recomputes[i];
          plan.order = machine.choices.order = order;
          const bool leavesOutSums = isOurs_ && zero >= 2 && from.zero < 2, isSplit = stagingOf(pp, order) == Staging::Split;
          auto found = tables.find({recomputes[i], isSplit});
          if (found == tables.end())
            continue;
          const cost::Table &table = found->second;
          auto bound = bounds.find({i, leavesOutSums, order});
          if (bound == bounds.end()) {
            cost::PartPrices prices = cost::priceParts(table, machine);
            if (leavesOutSums)
              leaveOutSums(prices, table, machine);
            bound = bounds.emplace(std::tuple(i, leavesOutSums, order), cost::StepBound(prices, table, machine)).first;
          }
          // Takes tables of several stages for one: kernels that are joined otherwise take up to half a percent less.
          const double slack = isSplit || stagingOf(pp, order) == from.staging ? 1 : 0.99;
          for (int64_t chunks : order == cost::Order::Interleaved ? space_.chunks(pp, layers_) : std::vector<int64_t>{1}) {
            if (chunks > 1 && plan.microBatches % pp)
              continue;
            plan.chunks = machine.choices.chunks = chunks;
            const std::vector<int64_t> one{layers_}, &stages = pp > 1 ? split(pp, chunks) : one;
            if (!stages.empty())
              plans.emplace_back(slack * bound->second.of(stages, machine), plan);
          }
        }
    }
  }
  return plans;
}

// Lets the plans of layouts and rows wait for their turn.
void Searcher::expand(const std::vector<Candidate> &groups) {
  std::vector<cost::Kept> recomputes = space_.recomputes();
  for (const Candidate &rows : groups) {
    TableKey key = *firstOf(rows.layout);
    key.microBatch = rows.microBatch;
    std::map<std::pair<cost::Kept, bool>, cost::Table> tables;
    for (cost::Kept kept : recomputes)
      for (bool isSplit : {false, true}) {
        if (isSplit && !splits())
          continue;
        key.staging = isSplit ? Staging::Split : firstOf(rows.layout)->staging;
        if (auto table = tables_.at(key, kept, /*forPasses=*/true))
          tables.emplace(std::pair(kept, isSplit), std::move(*table));
      }
    for (auto &[seconds, plan] : boundPlans(rows, tables)) {
      ++result_.candidates;
      push({Work::Bounded, seconds, 0, plan});
    }
  }
}

// Returns bytes that a plan needs no less than.
double Searcher::leastPeak(const Candidate &candidate) {
  if (!isOurs_)
    return 0;
  const bool isSplit = stagingOf(candidate.pp, candidate.order) == Staging::Split;
  auto [at, isNew] = memory_.try_emplace({candidate.layout, candidate.zero, candidate.dp, candidate.microBatch, candidate.recompute, isSplit});
  CompileOptions options = request_.options;
  cost::Machine machine = machineOf(withStages(candidate), options);
  if (isNew)
    if (auto table = passesOf(candidate, isSplit))
      at->second = cost::withStates(*table, machine.choices, /*hasWork=*/false);
  return at->second.kinds.empty() ? 0 : kSure * peakOf(cost::predictMemory(at->second, machine));
}

// Names the tables of the passes of a plan; `isSplit`: with gradients of weights apart from backward.
TableKey Searcher::passesKeyOf(const Candidate &candidate, bool isSplit) const {
  TableKey key = *firstOf(candidate.layout);
  key.dp = candidate.dp, key.microBatch = candidate.microBatch;
  if (isSplit)
    key.staging = Staging::Split;
  return key;
}

// Returns the table of the passes of a plan.
std::optional<cost::Table> Searcher::passesOf(const Candidate &candidate, bool isSplit) {
  const TableKey key = passesKeyOf(candidate, isSplit);
  auto table = tables_.at(key, candidate.recompute, /*forPasses=*/true);
  // Leaves out the second copy of a tied embedding, which is no parameter of its own: one stage alone has one.
  if (table && candidate.pp == 1 && key.staging != Staging::Single)
    table->after.parameters.dense = std::min(table->after.parameters.dense, table->after.wholeParameters);
  return table;
}

// Estimates the steps of plans, each on a core, from passes of their layouts with states by arithmetic.
void Searcher::estimate(const std::vector<Work> &works) {
  auto isSplit = [&](const Candidate &c) { return stagingOf(c.pp, c.order) == Staging::Split; };
  std::vector<TableKey> samples;
  for (const Work &work : works)
    for (const TableKey &sample : tables_.samplesOf(passesKeyOf(work.candidate, isSplit(work.candidate)), /*forPasses=*/true))
      samples.push_back(sample);
  tables_.read(samples);
  std::vector<std::optional<cost::Table>> tables;
  std::vector<Candidate> candidates;
  for (const Work &work : works) {
    tables.push_back(passesOf(work.candidate, isSplit(work.candidate)));
    candidates.push_back(withStages(work.candidate));
  }
  std::vector<double> steps(works.size());
  readers_.run(works.size(), [&](predict::RaisedModels &, size_t i) {
    if (!tables[i])
      return;
    CompileOptions options = request_.options;
    cost::Machine machine = machineOf(candidates[i], options);
    cost::Table table = cost::withStates(*tables[i], machine.choices, /*hasWork=*/true);
    cost::PartPrices prices = cost::priceParts(table, machine);
    if (machine.choices.zero >= 2 && firstOf(candidates[i].layout)->zero < 2)
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
    nearest_ = {peak, withStages(candidate)};
}

// Prices plans by their tables, each on a core, without what an arena holds beside states and slots.
void Searcher::price(const std::vector<Candidate> &waiting) {
  std::vector<Candidate> candidates;
  for (const Candidate &candidate : waiting)
    candidates.push_back(withStages(candidate));
  std::vector<TableKey> keys, samples;
  for (const Candidate &candidate : candidates) {
    keys.push_back(keyOf(candidate));
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
    candidates.push_back(withStages(candidate));
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

// Takes what takes least of all that is left, several at once where that is one kind of work. False if nothing is left.
bool Searcher::step() {
  std::vector<Work> batch;
  auto most = [&](Work::Kind kind) { return (kind == Work::OfRows || kind == Work::Bounded ? 8 : 1) * readers_.threads(); };
  while (!work_.empty() && (batch.empty() || (work_.top().kind == batch.front().kind && batch.size() < most(batch.front().kind)))) {
    const Work work = work_.top();
    work_.pop();
    if (work.kind >= Work::Bounded && done_.contains(meshOf(work.candidate)))
      continue;
    if (double peak = work.kind == Work::Bounded ? leastPeak(work.candidate) : 0; peak > cost::usableMemory(machine_.cluster))
      lack(work.candidate, peak);
    else
      batch.push_back(work);
    if (work.kind == Work::Exact)
      break;
  }
  if (!batch.empty())
    take(batch);
  return !batch.empty() || !work_.empty();
}

// Takes works of one kind a step further.
void Searcher::take(const std::vector<Work> &batch) {
  auto t0 = std::chrono::steady_clock::now(); int k0 = batch.front().kind; int64_t n0 = tables_.count();
  struct Done { Searcher &s; int k; size_t n; int64_t n0; std::chrono::steady_clock::time_point t; ~Done() { s.stat[k][0] += n; s.stat[k][1] += std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count(); s.stat[k][2] += s.tables_.count() - n0; } } done0{*this, k0, batch.size(), n0, t0};
  std::vector<Candidate> candidates;
  for (const Work &work : batch)
    candidates.push_back(work.candidate);
  switch (batch.front().kind) {
  case Work::OfLayout: {
    std::vector<Layout> layouts;
    for (const Candidate &candidate : candidates)
      layouts.push_back(candidate.layout);
    return readLayouts(layouts);
  }
  case Work::OfRows:
    return expand(candidates);
  case Work::Bounded:
  case Work::OfPasses:
    return isOurs_ ? estimate(batch) : price(candidates);
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
  // Reads the model with one rank first, which tells of what it consists.
  auto first = tables_.at({{.gradients = machine_.choices.gradients}, Staging::Single, 0, 1, 1}, space_.recomputes().front());
  if (!first) {
    mlir::emitError(mlir::UnknownLoc::get(&models_.context())) << tables_.why();
    return std::nullopt;
  }
  layers_ = int64_t(first->layers.size());
  if (!request_.options.globalBatch)
    request_.options.globalBatch = rowsOfStep();
  result_.globalBatch = request_.options.globalBatch;
  std::vector<Layout> layouts = space_.layouts(tables_.model().sequence, std::max<int64_t>(1, std::llround(first->experts)));
  addLayouts(layouts);
  marks[1] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  marks[2] = tables_.count();
  while (result_.found.size() < count_ && step())
    ;
  fprintf(stderr, "layouts %zu begun %.2f tables %g\n", layouts.size(), marks[1], marks[2]);
  for (int k = 0; k < 7; ++k) fprintf(stderr, "kind %d: %g works %.2f s %g tables\n", k, stat[k][0], stat[k][1], stat[k][2]);
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
