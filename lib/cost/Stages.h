// Prices the stages of a pipeline, one micro-batch each: what a stack composes a step from. Tests: test/cost.
#ifndef LLMC_LIB_COST_STAGES_H
#define LLMC_LIB_COST_STAGES_H

#include "lib/cost/Pipeline.h"
#include "lib/cost/Step.h"

#include <map>
#include <tuple>
#include <utility>

namespace llmc::cost {

// Holds what one pass over one part takes.
struct PassTime {
  TimeParts exposed; // compute and the communication that it does not hide
  double host = 0;   // seconds of the host, beside all that
  double attention = 0, weights = 0;

  PassTime &operator+=(const PassTime &o) {
    exposed += o.exposed, host += o.host, attention += o.attention, weights += o.weights;
    return *this;
  }
  PassTime operator*(double f) const { return {exposed * f, host * f, attention * f, weights * f}; }
};

// Holds the price of one stage, and what it has.
struct Stage {
  StageTime time;
  PassTime forward, backward;
  Parameters parameters;
  // Holds what each part takes, in order, and how many of them each chunk has.
  struct PartPass {
    const Part *part;
    PassTime forward, backward;
  };
  std::vector<PartPass> parts;
  std::vector<size_t> chunks;
  double microBatch() const { return forward.exposed.sum() + backward.exposed.sum(); }
};

// Holds what each part of a table takes, whatever stage it is on: one of these prices many divisions into stages.
struct PartPrices {
  struct Of {
    PassTime forward, backward;
    TimeParts alone; // what the backward of a layer waits besides where no other has come before it
    double sum() const { return forward.exposed.sum() + backward.exposed.sum(); }
  };
  Of before, shared, after;
  std::vector<Of> kinds;
};

// Returns the price of each part. Asks for no number of stages, micro-batches or ranks.
PartPrices priceParts(const Table &table, const Machine &machine);

// Returns the price of each stage.
std::vector<Stage> priceStages(const PartPrices &prices, const Table &table, const Machine &machine);

// Holds when a work of our own plans ends that begins at 0, and when the stream of its collectives is free again.
struct WorkEnds {
  double compute = 0, stream = 0;
};

// Holds the ends of works whose collectives find their stream busy with others for `busy` seconds, and that gather weights of
// the next work for `ahead` seconds from where they gather the last of their own (passes/5-schedule/OverlapShards); of few
// works, each once.
class WorkTimes {
public:
  WorkTimes(const Table &table, const Machine &machine);
  WorkEnds of(const Work &work, double busy, double ahead = 0);
  // Returns the share of the compute of a work that stands before the first gradient of weights.
  double shareBeforeGradients(const Work &work);

private:
  const Table &table_;
  const Machine &machine_;
  std::map<std::tuple<const Work *, double, double>, WorkEnds> times_;
  std::map<const Work *, double> shares_; // before gradients
};

// Returns the passes of each stage: of its chunks, or of one that is priced as a whole.
std::vector<std::vector<ChunkPasses>> passesOf(const std::vector<Stage> &stages, Order order, bool byChunk);

// Returns the seconds of the message of one micro-batch from a stage to the next.
double messageOf(const Table &table, const Machine &machine);

// Returns the groups of data-parallel ranks of dense parameters and of experts.
std::pair<Group, Group> dataGroups(const Choices &choices);

// Returns the seconds of an update of a stage's parameters that no kernel is known of.
double optimizerTime(const Machine &machine, const Stage &stage);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_STAGES_H
