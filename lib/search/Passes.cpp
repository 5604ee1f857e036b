#include "lib/search/Passes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

using namespace llmc;
using namespace llmc::search;

double search::peakOf(const std::vector<cost::MemoryParts> &stages) {
  double peak = 0;
  for (const cost::MemoryParts &stage : stages)
    peak = std::max(peak, stage.sum());
  return peak;
}

void search::leaveOutSums(cost::PartPrices &prices, const cost::Table &table, const cost::Machine &machine) {
  for (size_t i = 0; i < prices.kinds.size(); ++i)
    prices.kinds[i].backward.exposed.compute -= machine.memory(8 * table.kinds[i].parameters.all());
}

// Leaves out the second copy of a tied embedding, which is no parameter of its own: one stage alone has one.
static void leaveOutCopy(cost::Table &table) {
  table.after.parameters.dense = std::min(table.after.parameters.dense, table.after.wholeParameters);
}

void Passes::divide(int64_t layers) {
  layers_ = layers;
  const std::vector<int64_t> &asked = request_.options.stages;
  auto divideInto = [&](int64_t pp, int64_t chunks) {
    std::vector<int64_t> &stages = splits_[{pp, chunks}];
    if (!asked.empty()) {
      if (int64_t(asked.size()) == pp * chunks)
        stages = asked;
      return;
    }
    cost::Choices choices = machine_.choices;
    choices.mesh.pp = pp, choices.chunks = chunks;
    stages = predict::divideStages(tables_.model().costs, choices).value_or(std::vector<int64_t>());
  };
  splits_[{1, 1}] = {layers_};
  for (int64_t pp : request_.free.pp ? divisorsOf(request_.gpus) : std::vector{request_.options.pp}) {
    if (pp == 1 || (pp > layers + 2 && asked.empty()))
      continue;
    divideInto(pp, 1);
    for (int64_t chunks : space_.chunks(pp, layers_))
      divideInto(pp, chunks);
  }
}

bool Passes::splits() const { return isOurs_ && llvm::is_contained(space_.orders(2), cost::Order::ZeroBubble); }

Staging Passes::stagingOf(int64_t pp, cost::Order order) const {
  return pp == 1 ? Staging::Single : order == cost::Order::ZeroBubble && isOurs_ ? Staging::Split : Staging::Several;
}

TableKey Passes::keyOf(const Candidate &c) const {
  // Other stacks share states out by arithmetic.
  return {c.layout, isOurs_ ? stagingOf(c.pp, c.order) : Staging::Single, isOurs_ ? c.zero : 0, c.dp, c.microBatch};
}

std::optional<TableKey> Passes::firstOf(const Layout &layout) const {
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

TableKey Passes::passesKeyOf(const Candidate &candidate) const {
  TableKey key = *firstOf(candidate.layout);
  key.dp = candidate.dp, key.microBatch = candidate.microBatch;
  if (isSplit(candidate))
    key.staging = Staging::Split;
  else if (key.staging == Staging::Split)
    key.staging = Staging::Several; // is read with it
  return key;
}

std::optional<cost::Table> Passes::of(const Candidate &candidate) {
  const TableKey key = passesKeyOf(candidate);
  auto table = tables_.at(key, candidate.recompute, /*forPasses=*/true);
  if (table && candidate.pp == 1 && key.staging != Staging::Single)
    leaveOutCopy(*table);
  return table;
}

std::vector<int64_t> Passes::rowsOf(const Layout &layout) const {
  std::set<int64_t> rows;
  for (int64_t pp : space_.stages(layout, layers_))
    for (int64_t each : space_.microBatches(space_.dataRanks(layout, pp)))
      rows.insert(each);
  return {rows.begin(), rows.end()};
}

const std::vector<int64_t> &Passes::split(int64_t pp, int64_t chunks) const {
  static const std::vector<int64_t> none;
  auto found = splits_.find({pp, chunks});
  return found == splits_.end() ? none : found->second;
}

Candidate Passes::withStages(Candidate candidate) const {
  if (candidate.pp > 1 && candidate.stages.empty())
    candidate.stages = split(candidate.pp, candidate.chunks);
  return candidate;
}

cost::Machine Passes::machineOf(const Candidate &candidate, CompileOptions &options) const {
  cost::Machine machine = machine_;
  space_.apply(candidate, options, machine);
  machine.choices.sequence = tables_.model().sequence;
  return machine;
}

bool Passes::allows(const Candidate &candidate) const {
  return (candidate.chunks == 1 || candidate.microBatches % candidate.pp == 0) && candidate.microBatches <= CompileOptions::kMostRuns / candidate.pp &&
         !split(candidate.pp, candidate.chunks).empty();
}

cost::Table Passes::statesOf(const cost::Table &passes, const Candidate &candidate) const {
  CompileOptions options = request_.options;
  cost::Machine machine = machineOf(candidate, options);
  if (candidate.pp > 1)
    return cost::withStates(passes, machine.choices, /*hasWork=*/false);
  cost::Table one = passes;
  leaveOutCopy(one);
  return cost::withStates(one, machine.choices, /*hasWork=*/false);
}

double Passes::leastPeak(const cost::Table &states, const Candidate &candidate) const {
  CompileOptions options = request_.options;
  return kSure * peakOf(cost::predictMemory(states, machineOf(withStages(candidate), options)));
}
