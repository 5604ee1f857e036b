// Bounds the plans of a layout for each number of rows of a micro-batch, before any of them is looked at: by passes, by the
// orders that its stages allow, and by what must be computed again so that memory suffices. Tests: test/search.
#ifndef LLMC_LIB_SEARCH_ROWBOUNDS_H
#define LLMC_LIB_SEARCH_ROWBOUNDS_H

#include "lib/cost/Bound.h"
#include "lib/cost/Stages.h"
#include "lib/search/Passes.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace llmc::search {

// Holds the seconds of rows of which no plan fits, which are looked at where nothing else is left: they say what is missing.
inline constexpr double kLate = 1e9;

class RowBounds {
public:
  // Bounds by the tables that `key` names; of another layout where that stands in for it, whose ranks of one row share its tokens
  // with fewer others: as many tokens in a part of the rows, with no more to exchange.
  RowBounds(const Request &request, const Space &space, const SampledTables &tables, const Passes &passes, const Layout &layout, const TableKey &key)
      : request_(request), space_(space), tables_(tables), passes_(passes), layout_(layout), key_(key),
        share_(double(key.layout.cp) / double(layout.cp)), rows_(passes.rowsOf(layout)) {}

  // Finds the bounds; from several threads at once. False if a table of them has not been read, or is refused.
  bool find();
  // Takes a table that cannot be interpolated.
  void set(int64_t rows, cost::Kept kept, bool isSplit, cost::Table table) { made_.insert_or_assign({rows, kept, isSplit}, std::move(table)); }

  const Layout &layout() const { return layout_; }
  const TableKey &key() const { return key_; }
  const std::vector<int64_t> &rows() const { return rows_; }
  // Returns seconds for each number of rows, of a step; infinite where it has no plan.
  const std::vector<double> &seconds() const { return seconds_; }

private:
  const cost::Table *tableOf(int64_t rows, cost::Kept kept, bool isSplit);
  Candidate planOf(int64_t pp, int64_t rows, int zero, bool isSplit, cost::Kept kept) const;
  bool fits(const Candidate &plan, const std::vector<int> &zeros, bool isSplit);
  void bound(int64_t pp, const std::vector<int> &zeros, const std::vector<cost::Order> &orders, bool isSplit);
  template <class Visit>
  void visitOrders(Candidate plan, const std::vector<cost::Order> &orders, const cost::Table &table, Visit visit);

  const Request &request_;
  const Space &space_;
  const SampledTables &tables_;
  const Passes &passes_;
  const Layout layout_;
  const TableKey key_;
  const double share_; // of its rows that the tables have
  const std::vector<int64_t> rows_;
  std::map<std::tuple<int64_t, cost::Kept, bool>, cost::Table> made_; // by rows; whether gradients of weights are apart
  std::map<const cost::Table *, cost::PartPrices> prices_;                  // of these
  std::map<std::pair<const cost::Table *, bool>, cost::StepBound> bounds_; // of these; whether sums are left out
  std::vector<double> seconds_;
};

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_ROWBOUNDS_H
