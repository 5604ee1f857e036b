#include "lib/search/Search.h"

#include "lib/cost/Bound.h"
#include "lib/search/SampledTables.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>
#include <set>

using namespace llmc;
using namespace llmc::search;

namespace {

// Holds plans that have the same kernels but for rows of a micro-batch and what is recomputed.
struct Node {
  Layout layout;
  Staging staging;
  int zero;
  auto operator<=>(const Node &) const = default;
};

// Orders what is left to do by the seconds that it takes at least.
struct Work {
  // Is a node by its next plan; a plan by its bound, by an estimate of its passes and then of its order, by its table, or exactly.
  enum Kind : uint8_t { OfNode, Bounded, OfPasses, Estimated, Priced, Exact } kind;
  double seconds;
  int64_t number; // in the order in which it was found: of equal ones the first
  Node node;
  Candidate candidate; // of a node the next one
  size_t found = 0;    // of those that were priced exactly
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

  void push(Work work) {
    work.number = next_++;
    work_.push(std::move(work));
  }
  std::vector<Node> nodesOf(const Layout &layout) const;
  template <class Visit> void visitMeshes(const Node &node, Visit visit);
  template <class Visit> void visitPlans(const Node &node, const Node &from, Visit visit);
  void addNodes(const Layout &layout);
  void pushNode(const Node &node);
  double leastPeak(const Candidate &candidate);
  std::optional<cost::Table> passesOf(const Candidate &candidate);
  void estimate(const std::vector<Work> &works);
  void price(const std::vector<Candidate> &candidates);
  void priceExactly(const std::vector<Candidate> &candidates);
  const std::vector<int64_t> &split(int64_t pp, int64_t chunks);
  cost::Machine machineOf(const Candidate &candidate, CompileOptions &options) const;
  Staging stagingOf(int64_t pp, cost::Order order) const {
    return pp == 1 ? Staging::Single : order == cost::Order::ZeroBubble && isOurs_ ? Staging::Split : Staging::Several;
  }
  TableKey keyOf(const Node &node, int64_t dp, int64_t microBatch) const {
    // Other stacks share states out by arithmetic.
    return {node.layout, isOurs_ ? node.staging : Staging::Single, isOurs_ ? node.zero : 0, dp, microBatch};
  }
  void lack(const Candidate &candidate, double peak);
  int64_t rowsOfStep() const;
  bool step();
  void nextOf(const Node &node);
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
  std::set<Mesh> done_;
  std::map<Mesh, double> least_; // bytes, of meshes none of whose plans has fitted
  std::map<Mesh, std::string> refused_;
  std::vector<Found> exact_; // plans that were priced exactly
  // Holds plans of nodes whose tables have not been read, with bounds by those of another node of the layout, the least last.
  std::map<Node, std::vector<std::pair<double, Candidate>>> unread_;
  std::map<Layout, Node> firsts_; // node of each layout whose tables have been read
  std::map<std::tuple<Layout, int, int64_t, int64_t, cost::Kept>, cost::Table> memory_; // stage of ZeRO, dp, rows
  std::optional<std::pair<double, Candidate>> nearest_;
  Result result_;
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

// Returns the kinds of plans that a layout allows, that from which the others are bounded first.
std::vector<Node> Searcher::nodesOf(const Layout &layout) const {
  std::set<std::pair<Staging, int>> kinds;
  for (int64_t pp : space_.stages(layout, layers_))
    for (int zero : space_.zeros(space_.dataRanks(layout, pp) * layout.cp))
      for (cost::Order order : space_.orders(pp))
        kinds.insert({stagingOf(pp, order), zero});
  std::vector<Node> nodes;
  for (auto [staging, zero] : kinds)
    nodes.push_back({layout, staging, zero});
  auto rank = [](const Node &node) { return std::pair(node.staging != Staging::Several, node.zero != 1); };
  std::stable_sort(nodes.begin(), nodes.end(), [&](const Node &a, const Node &b) { return rank(a) < rank(b); });
  return nodes;
}

// Calls visit(pp, dp, rows of a micro-batch) for all of a node.
template <class Visit> void Searcher::visitMeshes(const Node &node, Visit visit) {
  for (int64_t pp : space_.stages(node.layout, layers_)) {
    const int64_t dp = space_.dataRanks(node.layout, pp);
    if ((pp == 1) == (node.staging == Staging::Single) && llvm::is_contained(space_.zeros(dp * node.layout.cp), node.zero))
      for (int64_t microBatch : space_.microBatches(dp))
        visit(pp, dp, microBatch);
  }
}

// Calls visit(candidate, seconds) for all plans of a node, with a bound by the tables of `from`, which may be another one.
template <class Visit> void Searcher::visitPlans(const Node &node, const Node &from, Visit visit) {
  // Splits gradients of weights from backward: kernels that are joined otherwise take up to half a percent less.
  const double slack = node.staging == from.staging ? 1 : 0.99;
  struct Priced {
    std::optional<cost::Table> table;
    std::optional<cost::StepBound> bound;
  };
  std::map<std::pair<int64_t, cost::Kept>, Priced> byRows;
  std::pair<int64_t, int64_t> full(0, 0); // stages and rows of a micro-batch of which nothing fits, nor of more rows
  visitMeshes(node, [&](int64_t pp, int64_t dp, int64_t microBatch) {
    if (full.first == pp && microBatch >= full.second)
      return;
    // Asks for what needs least: one micro-batch for each stage behind, and most of all computed again.
    Candidate least{node.layout, dp, pp, 1, microBatch, request_.options.globalBatch / (dp * microBatch), cost::Order::OneFOneB, node.zero,
                    space_.recomputes().back(), pp > 1 ? split(pp, 1) : std::vector<int64_t>()};
    if (pp == 1 || !least.stages.empty())
      if (double peak = leastPeak(least); peak > cost::usableMemory(machine_.cluster)) {
        full = {pp, microBatch};
        // Names a plan that is asked for.
        least.order = space_.orders(pp).front();
        std::vector<int64_t> chunks{1};
        if (least.order == cost::Order::Interleaved)
          chunks = space_.chunks(pp, layers_);
        if (chunks.empty())
          return;
        least.chunks = chunks.front();
        if (pp > 1)
          least.stages = split(pp, least.chunks);
        if (pp == 1 || !least.stages.empty())
          lack(least, peak);
        ++result_.candidates;
        return;
      }
    for (cost::Kept kept : space_.recomputes()) {
      Candidate candidate{node.layout, dp, pp, 1, microBatch, request_.options.globalBatch / (dp * microBatch),
                          cost::Order::OneFOneB, node.zero, kept, {}};
      CompileOptions options = request_.options;
      auto [priced, isNew] = byRows.try_emplace({microBatch, kept});
      if (isNew)
        priced->second.table = tables_.at(keyOf(from, dp, microBatch), kept, /*forPasses=*/true);
      auto &[table, bound] = priced->second;
      if (!table) {
        refused_[meshOf(candidate)] = tables_.why();
        continue;
      }
      for (cost::Order order : space_.orders(pp)) {
        if (stagingOf(pp, order) != node.staging)
          continue;
        candidate.order = order;
        cost::Machine machine = machineOf(candidate, options);
        if (!bound || !isOurs_) {
          cost::PartPrices prices = cost::priceParts(*table, machine);
          if (node.zero >= 2 && from.zero < 2)
            leaveOutSums(prices, *table, machine);
          bound.emplace(prices, *table, machine);
        }
        for (int64_t chunks : order == cost::Order::Interleaved ? space_.chunks(pp, layers_) : std::vector<int64_t>{1}) {
          candidate.chunks = chunks;
          candidate.stages = pp > 1 ? split(pp, chunks) : std::vector<int64_t>{layers_};
          if (candidate.stages.empty() || (chunks > 1 && candidate.microBatches % pp))
            continue;
          machine.choices.chunks = chunks;
          double seconds = slack * bound->of(candidate.stages, machine);
          if (pp == 1)
            candidate.stages.clear();
          visit(candidate, seconds);
        }
      }
    }
  });
}

// Adds the kinds of plans of a layout, of which the tables of the first are read.
void Searcher::addNodes(const Layout &layout) {
  std::vector<Node> nodes = nodesOf(layout);
  if (!nodes.empty())
    firsts_.try_emplace(layout, nodes.front());
  for (const Node &node : nodes) {
    auto &plans = unread_[node];
    visitPlans(node, nodes.front(), [&](const Candidate &candidate, double seconds) {
      ++result_.candidates;
      plans.emplace_back(seconds, candidate);
    });
    std::stable_sort(plans.begin(), plans.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    pushNode(node);
  }
}

// Lets a node wait for its turn, by the plan of those left that takes least.
void Searcher::pushNode(const Node &node) {
  if (auto &plans = unread_[node]; !plans.empty())
    push({Work::OfNode, plans.back().first, 0, node, plans.back().second});
}

// Returns bytes that a plan needs no less than.
double Searcher::leastPeak(const Candidate &candidate) {
  if (!isOurs_)
    return 0;
  CompileOptions options = request_.options;
  cost::Machine machine = machineOf(candidate, options);
  auto [at, isNew] = memory_.try_emplace({candidate.layout, candidate.zero, candidate.dp, candidate.microBatch, candidate.recompute});
  if (isNew)
    if (auto table = passesOf(candidate))
      at->second = cost::withStates(*table, machine.choices, /*hasWork=*/false);
  return at->second.kinds.empty() ? 0 : kSure * peakOf(cost::predictMemory(at->second, machine));
}

// Returns the table of the passes of a plan, of the node of its layout that has been read.
std::optional<cost::Table> Searcher::passesOf(const Candidate &candidate) {
  const Node &first = firsts_.at(candidate.layout);
  auto table = tables_.at(keyOf(first, candidate.dp, candidate.microBatch), candidate.recompute, /*forPasses=*/true);
  // Leaves out the second copy of a tied embedding, which is no parameter of its own: one stage alone has one.
  if (table && candidate.pp == 1 && first.staging != Staging::Single)
    table->after.parameters.dense = std::min(table->after.parameters.dense, table->after.wholeParameters);
  return table;
}

// Estimates the steps of plans, each on a core, from passes of their layouts with states by arithmetic.
void Searcher::estimate(const std::vector<Work> &works) {
  std::vector<std::optional<cost::Table>> tables;
  for (const Work &work : works)
    tables.push_back(passesOf(work.candidate));
  std::vector<double> steps(works.size());
  readers_.run(works.size(), [&](predict::RaisedModels &, size_t i) {
    if (!tables[i])
      return;
    CompileOptions options = request_.options;
    cost::Machine machine = machineOf(works[i].candidate, options);
    cost::Table table = cost::withStates(*tables[i], machine.choices, /*hasWork=*/true);
    cost::PartPrices prices = cost::priceParts(table, machine);
    if (machine.choices.zero >= 2 && firsts_.at(works[i].candidate.layout).zero < 2)
      leaveOutSums(prices, table, machine);
    // Leaves the order out where tables do not tell gradients of weights from backward, which fill its gaps.
    const Candidate &candidate = works[i].candidate;
    const bool isJoined = stagingOf(candidate.pp, candidate.order) == Staging::Split && firsts_.at(candidate.layout).staging != Staging::Split;
    steps[i] = cost::predictStep(prices, table, machine, /*isBound=*/works[i].kind != Work::OfPasses || isJoined).step;
  });
  for (size_t i = 0; i < works.size(); ++i)
    push({works[i].kind == Work::OfPasses ? Work::Estimated : Work::OfPasses, std::max(works[i].seconds, kSure * steps[i]), 0, works[i].node, works[i].candidate});
}

// Remembers that a plan needs more memory than there is.
void Searcher::lack(const Candidate &candidate, double peak) {
  auto [at, isNew] = least_.try_emplace(meshOf(candidate), peak);
  at->second = std::min(at->second, peak);
  if (!nearest_ || peak < nearest_->first)
    nearest_ = {peak, candidate};
}

// Prices plans by their tables, each on a core, without what an arena holds beside states and slots.
void Searcher::price(const std::vector<Candidate> &candidates) {
  std::vector<TableKey> keys, samples;
  for (const Candidate &candidate : candidates) {
    Node node{candidate.layout, stagingOf(candidate.pp, candidate.order), candidate.zero};
    keys.push_back(keyOf(node, candidate.dp, candidate.microBatch));
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
    push({Work::Priced, steps[i], 0, {}, candidates[i]});
  }
}

// Reads the tables and arenas of plans, each on a core, and prices them by these.
void Searcher::priceExactly(const std::vector<Candidate> &candidates) {
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
    push({Work::Exact, step, 0, {}, candidates[i], exact_.size() - 1});
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
  const size_t most = 8 * readers_.threads();
  std::vector<Work> batch;
  auto isLike = [](const Work &a, const Work &b) {
    auto kind = [](const Work &work) { return work.kind == Work::OfNode ? Work::Bounded : work.kind; };
    return kind(a) == kind(b);
  };
  while (!work_.empty() && batch.size() < (work_.top().kind >= Work::OfPasses ? readers_.threads() : most)) {
    const Work work = work_.top();
    if (!batch.empty() && !isLike(work, batch.front()))
      break;
    work_.pop();
    if (work.kind == Work::OfNode)
      nextOf(work.node);
    if (done_.contains(meshOf(work.candidate)))
      continue;
    if (double peak = work.kind <= Work::Bounded ? leastPeak(work.candidate) : 0; peak > cost::usableMemory(machine_.cluster))
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

// Lets a node wait for the turn of the plan after the one that was taken.
void Searcher::nextOf(const Node &node) {
  unread_[node].pop_back();
  pushNode(node);
}

// Takes works of one kind a step further.
void Searcher::take(const std::vector<Work> &batch) {
  std::vector<Candidate> candidates;
  for (const Work &work : batch)
    candidates.push_back(work.candidate);
  switch (batch.front().kind) {
  case Work::OfNode:
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
  std::vector<TableKey> keys;
  for (const Layout &layout : layouts)
    if (std::vector<Node> nodes = nodesOf(layout); !nodes.empty())
      visitMeshes(nodes.front(), [&](int64_t, int64_t dp, int64_t microBatch) {
        for (const TableKey &key : tables_.samplesOf(keyOf(nodes.front(), dp, microBatch), /*forPasses=*/true))
          if (!llvm::is_contained(keys, key))
            keys.push_back(key);
      });
  tables_.read(keys);
  for (const Layout &layout : layouts)
    addNodes(layout);
  while (result_.found.size() < count_ && step())
    ;
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
