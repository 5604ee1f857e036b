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
};

// Orders what is left to do by the seconds that it takes at least.
struct Work {
  enum Kind : uint8_t { OfNode, Bounded, Priced, Exact } kind;
  double seconds;
  int64_t number; // in the order in which it was found: of equal ones the first
  Node node;
  Candidate candidate;
  bool operator<(const Work &o) const { return std::pair(seconds, number) > std::pair(o.seconds, o.number); }
};

class Searcher {
public:
  Searcher(predict::RaisedModels &models, const Request &request, const cost::Machine &machine, size_t count)
      : models_(models), request_(request), machine_(machine), space_(request, machine),
        tables_(models, request, machine, space_), count_(count), isOurs_(machine.choices.software == cost::Profile::Llmc) {}

  std::optional<Result> run();

private:
  using Mesh = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  static Mesh meshOf(const Candidate &c) { return {c.dp, c.pp, c.layout.tp, c.layout.cp, c.layout.ep, c.layout.etp}; }

  void push(Work work) {
    work.number = next_++;
    work_.push(std::move(work));
  }
  bool addNodes(const Layout &layout);
  void expand(const Node &node);
  void boundAll(const Node &node, int64_t pp, int64_t microBatch, std::map<cost::Kept, cost::Table> &tables);
  void price(const Candidate &candidate);
  void priceExactly(const Candidate &candidate);
  const std::vector<int64_t> &split(int64_t pp, int64_t chunks);
  cost::Machine machineOf(const Candidate &candidate, CompileOptions &options) const;
  Staging stagingOf(const Candidate &c) const {
    return c.pp == 1 ? Staging::Single : c.order == cost::Order::ZeroBubble ? Staging::Split : Staging::Several;
  }
  int zeroOfTables(int zero) const { return isOurs_ ? zero : 0; }
  void lack(const Candidate &candidate, double peak);

  predict::RaisedModels &models_;
  const Request &request_;
  const cost::Machine &machine_;
  Space space_;
  SampledTables tables_;
  const size_t count_;
  const bool isOurs_;
  std::priority_queue<Work> work_;
  int64_t next_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> splits_;
  std::set<Mesh> done_;
  std::map<Mesh, double> least_; // bytes, of meshes none of whose plans has fitted
  std::map<Mesh, Found> exact_;  // the last of each mesh
  std::optional<std::pair<double, Candidate>> nearest_;
  Result result_;
};

cost::Machine Searcher::machineOf(const Candidate &candidate, CompileOptions &options) const {
  cost::Machine machine = machine_;
  space_.apply(candidate, options, machine);
  machine.choices.sequence = tables_.model().sequence;
  return machine;
}

// Returns the layers of each virtual stage, as compile divides them; none where they cannot be divided so.
const std::vector<int64_t> &Searcher::split(int64_t pp, int64_t chunks) {
  auto [at, isNew] = splits_.try_emplace({pp, chunks});
  if (!isNew)
    return at->second;
  if (!request_.options.stages.empty()) {
    if (int64_t(request_.options.stages.size()) == pp * chunks)
      at->second = request_.options.stages;
  } else if (pp * chunks > 1) {
    cost::Choices choices = machine_.choices;
    choices.mesh.pp = pp, choices.chunks = chunks;
    at->second = predict::divideStages(tables_.model().costs, choices).value_or(std::vector<int64_t>());
  }
  return at->second;
}

// Lists the plans of a node, each with its bound.
void Searcher::expand(const Node &node) {
  const auto &layers = tables_.model().of.begin()->second.layers;
  std::map<int64_t, std::map<cost::Kept, cost::Table>> byRows;
  for (int64_t pp : space_.stages(node.layout, int64_t(layers.size()))) {
    if ((pp == 1) != (node.staging == Staging::Single))
      continue;
    const int64_t dp = space_.dataRanks(node.layout, pp);
    if (!llvm::is_contained(space_.zeros(dp * node.layout.cp), node.zero))
      continue;
    for (int64_t microBatch : space_.microBatches(dp)) {
      // Takes the passes of any number of data-parallel ranks: these do not tell how many there are.
      auto [tables, isNew] = byRows.try_emplace(microBatch);
      if (isNew)
        tables->second = tables_.at(node.layout, node.staging, zeroOfTables(node.zero), dp, microBatch);
      if (tables->second.empty()) {
        result_.rejected.push_back({{dp, pp, node.layout.tp, node.layout.cp, node.layout.ep, node.layout.etp}, tables_.why()});
        continue;
      }
      boundAll(node, pp, microBatch, tables->second);
    }
  }
}

void Searcher::boundAll(const Node &node, int64_t pp, int64_t microBatch, std::map<cost::Kept, cost::Table> &tables) {
  const int64_t dp = space_.dataRanks(node.layout, pp), microBatches = request_.options.globalBatch / (dp * microBatch);
  const auto layers = int64_t(tables.begin()->second.layers.size());
  for (cost::Kept kept : space_.recomputes()) {
    cost::Table &table = isOurs_ ? tables.at(kept) : tables.begin()->second;
    std::optional<cost::StepBound> bound;
    for (cost::Order order : space_.orders(pp)) {
      if ((order == cost::Order::ZeroBubble) != (node.staging == Staging::Split))
        continue;
      Candidate candidate{node.layout, dp, pp, 1, microBatch, microBatches, order, node.zero, kept, {}};
      auto chunks = order == cost::Order::Interleaved ? space_.chunks(pp, layers) : std::vector<int64_t>{1};
      for (int64_t count : chunks) {
        if (count > 1 && microBatches % pp)
          continue;
        candidate.chunks = count;
        candidate.stages = split(pp, count);
        if (pp > 1 && candidate.stages.empty())
          continue;
        CompileOptions options = request_.options;
        cost::Machine machine = machineOf(candidate, options);
        if (!bound)
          bound.emplace(cost::priceParts(table, machine), table, machine);
        ++result_.candidates;
        push({Work::Bounded, bound->of(pp > 1 ? candidate.stages : std::vector<int64_t>{layers}, machine), 0, node, candidate});
      }
    }
  }
}

// Remembers that a plan needs more memory than there is.
void Searcher::lack(const Candidate &candidate, double peak) {
  auto [at, isNew] = least_.try_emplace(meshOf(candidate), peak);
  at->second = std::min(at->second, peak);
  if (!nearest_ || peak < nearest_->first)
    nearest_ = {peak, candidate};
}

// Prices a plan by its table, without what an arena holds beside states and slots.
void Searcher::price(const Candidate &candidate) {
  auto tables = tables_.at(candidate.layout, stagingOf(candidate), zeroOfTables(candidate.zero), candidate.dp, candidate.microBatch);
  if (tables.empty())
    return;
  const cost::Table &table = isOurs_ ? tables.at(candidate.recompute) : tables.begin()->second;
  CompileOptions options = request_.options;
  cost::Machine machine = machineOf(candidate, options);
  double peak = 0;
  for (const cost::MemoryParts &stage : cost::predictMemory(table, machine))
    peak = std::max(peak, stage.sum());
  if (peak > cost::usableMemory(machine.cluster)) {
    lack(candidate, peak);
    return;
  }
  ++result_.priced;
  push({Work::Priced, cost::predictStep(table, machine).step, 0, {}, candidate});
}

// Reads the tables and arenas of a plan, and prices it by these.
void Searcher::priceExactly(const Candidate &candidate) {
  CompileOptions options = request_.options;
  cost::Machine machine = machineOf(candidate, options);
  std::string refusal;
  std::optional<predict::Prediction> prediction;
  {
    mlir::ScopedDiagnosticHandler handler(&models_.context(), [&](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && refusal.empty())
        refusal = diagnostic.str();
      return mlir::success();
    });
    prediction = predict::readPrediction(models_, options, machine, /*choosesRecompute=*/false);
    if (prediction && !predict::price(*prediction))
      prediction.reset();
  }
  if (!prediction) {
    result_.rejected.push_back({machine.choices.mesh, refusal});
    return;
  }
  double peak = 0;
  for (const cost::MemoryParts &stage : prediction->memory)
    peak = std::max(peak, stage.sum());
  if (peak > cost::usableMemory(machine.cluster)) {
    lack(candidate, peak);
    return;
  }
  double step = prediction->time.step;
  exact_.insert_or_assign(meshOf(candidate), Found{candidate, options, std::move(*prediction)});
  push({Work::Exact, step, 0, {}, candidate});
}

std::optional<Result> Searcher::run() {
  auto begin = std::chrono::steady_clock::now();
  // Reads the model with one rank a stage first, which tells of what it consists.
  Candidate one;
  one.layout.gradients = machine_.choices.gradients;
  auto first = tables_.at({.gradients = machine_.choices.gradients}, Staging::Single, 0, 1, 1);
  if (first.empty()) {
    mlir::emitError(mlir::UnknownLoc::get(&models_.context())) << tables_.why();
    return std::nullopt;
  }
  const cost::Table &table = first.begin()->second;
  for (const Layout &layout : space_.layouts(tables_.model().sequence, std::max<int64_t>(1, std::llround(table.experts)))) {
    std::set<std::pair<Staging, int>> nodes;
    for (int64_t pp : space_.stages(layout, int64_t(table.layers.size())))
      for (int zero : space_.zeros(space_.dataRanks(layout, pp) * layout.cp))
        for (cost::Order order : space_.orders(pp))
          nodes.insert({pp == 1 ? Staging::Single : order == cost::Order::ZeroBubble ? Staging::Split : Staging::Several, zero});
    for (auto [staging, zero] : nodes)
      push({Work::OfNode, 0, 0, {layout, staging, zero}, {}});
  }
  while (!work_.empty() && result_.found.size() < count_) {
    Work work = work_.top();
    work_.pop();
    if (work.kind != Work::OfNode && done_.count(meshOf(work.candidate)))
      continue;
    switch (work.kind) {
    case Work::OfNode:
      expand(work.node);
      break;
    case Work::Bounded:
      price(work.candidate);
      break;
    case Work::Priced:
      priceExactly(work.candidate);
      break;
    case Work::Exact:
      result_.found.push_back(std::move(exact_.at(meshOf(work.candidate))));
      done_.insert(meshOf(work.candidate));
    }
  }
  for (auto [mesh, peak] : least_) {
    if (done_.count(mesh))
      continue;
    auto [dp, pp, tp, cp, ep, etp] = mesh;
    char text[160];
    snprintf(text, sizeof text, "needs %.4g GiB at least of those tried, and a run may use %.4g GiB of %s", peak / (1 << 30),
             cost::usableMemory(machine_.cluster) / (1 << 30), machine_.cluster.name.c_str());
    result_.rejected.push_back({{dp, pp, tp, cp, ep, etp}, text});
  }
  result_.tables = tables_.read();
  result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return std::move(result_);
}

} // namespace

std::optional<Result> search::search(predict::RaisedModels &models, const Request &request, const cost::Machine &machine,
                                     size_t count) {
  return Searcher(models, request, machine, count).run();
}
