// Names the tables of plans, and bounds what their passes take and need: all plans of a layout share tables of passes.
// Tests: test/search, test/numerics/search.py.
#ifndef LLMC_LIB_SEARCH_PASSES_H
#define LLMC_LIB_SEARCH_PASSES_H

#include "lib/cost/Memory.h"
#include "lib/cost/Stages.h"
#include "lib/search/SampledTables.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace llmc::search {

// Holds the share of an estimate of time or memory below which nothing of the plan is.
inline constexpr double kSure = 0.98;

double peakOf(const std::vector<cost::MemoryParts> &stages);

// Leaves out adding to sums of gradients, which later stages of ZeRO do elsewhere.
void leaveOutSums(cost::PartPrices &prices, const cost::Table &table, const cost::Machine &machine);

class Passes {
public:
  Passes(const Request &request, const cost::Machine &machine, const Space &space, SampledTables &tables)
      : request_(request), machine_(machine), space_(space), tables_(tables), isOurs_(machine.choices.software == cost::Profile::Llmc) {}

  // Divides the layers of the model that was read first over all numbers of stages and chunks.
  void divide(int64_t layers);
  int64_t layers() const { return layers_; }
  bool isOurs() const { return isOurs_; }

  // Returns whether plans may have a zero-bubble schedule of our own.
  bool splits() const;
  Staging stagingOf(int64_t pp, cost::Order order) const;
  bool isSplit(const Candidate &c) const { return stagingOf(c.pp, c.order) == Staging::Split; }
  // Names the tables of a plan.
  TableKey keyOf(const Candidate &candidate) const;
  // Names the tables of a layout from which all of its plans are bounded: of several stages, and stage 1 of ZeRO, where it has
  // such plans. Nullopt if it has no plan.
  std::optional<TableKey> firstOf(const Layout &layout) const;
  // Names the tables of the passes of a plan: those of its layout, and where it splits gradients of weights those that do.
  TableKey passesKeyOf(const Candidate &candidate) const;
  // Returns the table of the passes of a plan, and reads what that takes.
  std::optional<cost::Table> of(const Candidate &candidate);

  // Returns the rows that a micro-batch of a layout may have.
  std::vector<int64_t> rowsOf(const Layout &layout) const;

  // Returns the layers of each virtual stage, as compile divides them; none where they cannot be divided so, or not at all.
  const std::vector<int64_t> &split(int64_t pp, int64_t chunks) const;
  // Returns a candidate with its stages, which one that waits leaves out.
  Candidate withStages(Candidate candidate) const;
  cost::Machine machineOf(const Candidate &candidate, CompileOptions &options) const;
  // Returns whether micro-batches and layers can be divided as an order with so many chunks divides them, and a run has no more of
  // them than compile takes.
  bool allows(const Candidate &candidate) const;

  // Returns the table of passes with the states of a plan alone, and the bytes that the plan needs no less than by that.
  cost::Table statesOf(const cost::Table &passes, const Candidate &candidate) const;
  double leastPeak(const cost::Table &states, const Candidate &candidate) const;
  double usable() const { return cost::usableMemory(machine_.cluster); }

private:
  const Request &request_;
  const cost::Machine &machine_;
  const Space &space_;
  SampledTables &tables_;
  const bool isOurs_;
  int64_t layers_ = 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> splits_;
};

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_PASSES_H
