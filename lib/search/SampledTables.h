// Makes tables of many meshes from few that are read of the model: between samples they are interpolated
// (lib/cost/Interpolation.h). Tests: test/search, test/numerics/search.py.
#ifndef LLMC_LIB_SEARCH_SAMPLEDTABLES_H
#define LLMC_LIB_SEARCH_SAMPLEDTABLES_H

#include "lib/cost/Interpolation.h"
#include "lib/search/Readers.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace llmc::search {

// Names the tables of one mesh: its layout and stage of ZeRO, and what the kernels of a stage depend on beside these: whether it
// is the only one, and whether gradients of weights are apart from backward (zero-bubble).
enum class Staging : uint8_t { Single, Several, Split };
struct TableKey {
  Layout layout;
  Staging staging = Staging::Several;
  int zero = 0;
  int64_t dp = 1, microBatch = 1;
  TableKey withRows(int64_t rows) const {
    TableKey key = *this;
    key.microBatch = rows;
    return key;
  }
  auto operator<=>(const TableKey &) const = default;
};

class SampledTables {
public:
  SampledTables(Readers &readers, const Request &request, const cost::Machine &machine, const Space &space)
      : readers_(readers), request_(request), machine_(machine), space_(space), most_(std::max<int64_t>(8, request.gpus)),
        splits_(machine.choices.software == cost::Profile::Llmc && llvm::is_contained(space.orders(2), cost::Order::ZeroBubble)) {}

  // Returns the table of a mesh; nullopt if the model refuses it, and why() then says why. `forPasses`: what one micro-batch
  // takes is asked for alone, which the number of data-parallel ranks does not change.
  std::optional<cost::Table> at(const TableKey &key, cost::Kept kept, bool forPasses = false);
  const std::string &why() const { return why_; }

  // Returns the tables that at() reads, and reads those of all `keys` at once, each on a core.
  std::vector<TableKey> samplesOf(const TableKey &key, bool forPasses) const;
  void read(const std::vector<TableKey> &keys);

  // Takes samples of other sizes of ep for a layout, whose tables have other kernels than the least; false if none are left.
  bool leaveOutLeast(const Layout &layout, bool forPasses);

  // Returns the table of a mesh whose samples have been read, without reading any other: from several threads at once; of
  // `share` of the rows of a micro-batch.
  std::optional<cost::Table> interpolate(const TableKey &key, cost::Kept kept, bool forPasses, std::string &why, double share = 1) const;

  const predict::Tables &model() const { return model_; } // the first one that was read
  int64_t count() const { return int64_t(tables_.size()); }

private:
  struct Sample {
    TableKey key;
    double share = 0, from = 1, to = 1; // as of cost::addDifference
  };
  // Returns the samples of a key: the first is the base.
  std::vector<Sample> plan(const TableKey &key, bool forPasses, double rows) const;
  
  struct Read {
    std::optional<predict::Tables> tables;
    std::map<cost::Kept, cost::TableNumbers> numbers, splitNumbers;
    std::string refusal;
  };
    // Names the tables that are read together: those of a zero-bubble schedule are read with others of several stages.
  static TableKey readOf(TableKey key) {
    if (key.staging == Staging::Split)
      key.staging = Staging::Several;
    return key;
  }
  // Reads the tables of keys that differ in the rows of a micro-batch alone.
  void readGroup(predict::RaisedModels &models, llvm::ArrayRef<TableKey> keys);
  const Read *find(const TableKey &key, std::string &why) const;

  Readers &readers_;
  const Request &request_;
  const cost::Machine &machine_;
  const Space &space_;
  const int64_t most_; // data-parallel ranks of the samples that have many
  const bool splits_;  // whether plans may have a zero-bubble schedule
  predict::Tables model_;
  std::map<TableKey, Read> tables_;
  // Counts for layouts, and whether for passes alone, the least sizes of ep whose tables are not like theirs; 2: no others' are.
  std::map<std::pair<Layout, bool>, int> apart_;
  std::map<std::tuple<Layout, Staging, int>, std::string> refused_; // whatever the number of data-parallel ranks
  std::string why_;
};

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_SAMPLEDTABLES_H
