// Holds which choices of a plan are free, and lists the values that each may take. Tests: test/search, test/numerics/search.py.
#ifndef LLMC_LIB_SEARCH_SPACE_H
#define LLMC_LIB_SEARCH_SPACE_H

#include "lib/cost/Kernels.h"
#include "lib/options/Options.h"
#include "lib/predict/PriceOptions.h"

#include <compare>
#include <string>
#include <vector>

namespace llmc::search {

// Holds which choices a search makes; the others are those of the options.
struct Free {
  bool dp = false, pp = false, tp = false, cp = false, ep = false, etp = false;
  bool microBatch = false, virtualStages = false, schedule = false, zero = false, sequenceParallel = false, recompute = false,
       gradients = false, stages = false;
  bool any() const {
    return dp || pp || tp || cp || ep || etp || microBatch || virtualStages || schedule || zero || sequenceParallel ||
           recompute || gradients || stages;
  }
};

// Describes what is asked for: the choices that are fixed, those that are free, and for how many accelerators and rows of a step.
struct Request {
  CompileOptions options;
  predict::PriceOptions prices;
  Free free;
  int64_t gpus = 0;
  double dollarsPerGpuHour = 0; // 0: nobody says
  bool byDollars = false;       // what a step costs is compared, not how long it takes
};

// Holds what decides which kernels and collectives a micro-batch has, the stage of ZeRO and what is recomputed left out.
struct Layout {
  int64_t tp = 1, cp = 1, ep = 1, etp = 1;
  bool sequenceParallel = false;
  cost::Number gradients = cost::Number::Fp32;
  auto operator<=>(const Layout &) const = default;
};

// Holds all choices of one plan.
struct Candidate {
  Layout layout;
  int64_t dp = 1, pp = 1, chunks = 1, microBatch = 1, microBatches = 1;
  cost::Order order = cost::Order::OneFOneB;
  int zero = 0;
  cost::Kept recompute = cost::Kept::All;
  std::vector<int64_t> stages; // layers of each virtual stage; empty: one stage
};

// Returns all numbers that divide `number`, in order.
std::vector<int64_t> divisorsOf(int64_t number);

// Lists the values of free choices for one request, whose machine has been resolved for some mesh.
class Space {
public:
  Space(const Request &request, const cost::Machine &machine) : request_(request), machine_(machine) {}

  // Returns the layouts of a model whose rows have `tokens` tokens and whose mixtures have `experts` experts (1: none), those
  // of fewer ranks first. tp stays inside of the ranks that reach each other fast, and a rank has 512 tokens of a row at least where cp is free.
  std::vector<Layout> layouts(int64_t tokens, int64_t experts) const;
  // Returns the numbers of stages of a layout, for a model of so many layers.
  std::vector<int64_t> stages(const Layout &layout, int64_t layers) const;
  std::vector<int64_t> microBatches(int64_t dp) const; // rows of one
  std::vector<int> zeros(int64_t ranks) const; // stages of ZeRO, where so many data-parallel ranks have the same states
  std::vector<cost::Kept> recomputes() const;
  std::vector<cost::Order> orders(int64_t pp) const;
  // Returns the chunks of a stage where they interleave.
  std::vector<int64_t> chunks(int64_t pp, int64_t layers) const;
  int64_t dataRanks(const Layout &layout, int64_t pp) const { return request_.gpus / (pp * layout.tp * layout.cp); }

  // Sets the choices of `options` and `machine` to those of a candidate.
  void apply(const Candidate &candidate, CompileOptions &options, cost::Machine &machine) const;

private:
  bool needsStages() const;

  const Request &request_;
  const cost::Machine &machine_;
};

} // namespace llmc::search

#endif // LLMC_LIB_SEARCH_SPACE_H
