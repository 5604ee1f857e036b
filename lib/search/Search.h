// Finds the plans of a model that take the least time on a cluster: every choice that is free, within the memory of an
// accelerator. Tests: test/search, test/numerics/search.py (beside every plan of small spaces).
#ifndef LLMC_LIB_SEARCH_SEARCH_H
#define LLMC_LIB_SEARCH_SEARCH_H

#include "lib/predict/Predict.h"
#include "lib/search/Space.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace llmc::search {

// Holds a plan that was found: its choices as a command line has them, and what is predicted of it.
struct Found {
  Candidate candidate;
  CompileOptions options;
  predict::Prediction prediction;
};

// Returns what is compared of plans: seconds of a step or, of one that is compared by dollars, of all of its accelerators: a
// step has the same tokens on any number of them.
inline double costOf(const Found &found, const Request &request) {
  return found.prediction.time.step * (request.byDollars ? double(found.options.ranks()) : 1);
}

// Holds why a mesh is none of those found.
struct Rejected {
  planfile::MeshSizes mesh;
  std::string reason;
};

struct Result {
  std::vector<Found> found; // the best plan of each mesh, the fastest first
  std::vector<Rejected> rejected;
  std::optional<Found> nearest; // where nothing fits: what needs the least memory
  // Counts plans of the space; of them those that have a bound of their own, and those whose step was priced; tables that were
  // read of the model.
  int64_t candidates = 0, bounded = 0, priced = 0, tables = 0;
  double seconds = 0;
  int64_t globalBatch = 0; // rows of a step
};

// Returns the plans of up to `count` meshes. `machine` is resolved for the fixed choices of the request. A step has the rows
// of options.globalBatch, or where that is 0 as many as have 4 Mi tokens, 64 for each accelerator at most; on
// processors four for each rank. Nullopt after
// diagnostics, of the model.
//
// Layouts, their rows of a micro-batch and plans have bounds (RowBounds.h, lib/cost/Bound.h); plans are priced in the order of their bounds, and none is priced any more
// whose bound is above what has been found: a branch and bound (Land and Doig, 1960) that leaves out nothing which could
// be faster.
std::optional<Result> search(predict::RaisedModels &models, const Request &request, const cost::Machine &machine, size_t count);

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_SEARCH_H
