// Makes tables of many meshes from few that are read of the model: between samples they are interpolated
// (lib/cost/Interpolation.h). Tests: test/search, test/numerics/search.py.
#ifndef LLMC_LIB_SEARCH_SAMPLEDTABLES_H
#define LLMC_LIB_SEARCH_SAMPLEDTABLES_H

#include "lib/predict/Tables.h"
#include "lib/search/Space.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

namespace llmc::search {

// Names what the kernels of a stage depend on beside its layout: whether it is the only one, and whether gradients of weights
// are apart from backward (zero-bubble).
enum class Staging : uint8_t { Single, Several, Split };

class SampledTables {
public:
  SampledTables(predict::RaisedModels &models, const Request &request, const cost::Machine &machine, const Space &space);

  // Returns the tables of a mesh, one for each choice of what is recomputed; an empty map if the model refuses it, and why()
  // then says why.
  std::map<cost::Kept, cost::Table> at(const Layout &layout, Staging staging, int zero, int64_t dp, int64_t microBatch);
  const std::string &why() const { return why_; }

  const predict::Tables &model() const { return model_; } // of one that was read
  int64_t read() const { return read_; }                  // tables that were read of the model

private:
  using Key = std::tuple<Layout, Staging, int, int64_t, int64_t>; // zero, dp, rows of a micro-batch
  const predict::Tables *read(const Layout &layout, Staging staging, int zero, int64_t dp, int64_t microBatch);
  bool isSampled(const Layout &layout, int zero, int64_t dp) const;

  predict::RaisedModels &models_;
  const Request &request_;
  const cost::Machine &machine_;
  const Space &space_;
  predict::Tables model_;
  int64_t most_; // data-parallel ranks of the samples that have many
  std::map<Key, std::optional<predict::Tables>> tables_;
  std::map<Key, std::string> refusals_;
  std::string why_;
  int64_t read_ = 0;
};

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_SAMPLEDTABLES_H
