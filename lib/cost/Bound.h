// Bounds the time of a step from below, in no time: what a search need not price is slower than what it has found.
// Tests: test/search/SearchTest.cpp.
#ifndef LLMC_LIB_COST_BOUND_H
#define LLMC_LIB_COST_BOUND_H

#include "lib/cost/Stages.h"

namespace llmc::cost {

// Holds what the layers of a table take from the first on, so that a chunk of them costs one subtraction.
class StepBound {
public:
  StepBound(const PartPrices &prices, const Table &table, const Machine &machine);

  // Returns seconds that a step does not take less than, whose virtual stages have `layers` each; `machine` has the mesh and
  // the order of micro-batches. A stage computes all of its passes one after the other; before its first one the first
  // micro-batch has passed the stages before it, and after its last one the last gradient passes these (Narayanan et al.,
  // 2021, section 2.2). Stages 2 and 3 of ZeRO send gradients and weights of each micro-batch, which no pass is faster than;
  // stages 1 and 2 gather weights when all passes have ended.
  double of(const std::vector<int64_t> &layers, const Machine &machine) const;

  // Returns seconds that one rank's passes of one micro-batch take, of all layers, on a machine of `ranks`.
  double ofOne(double ranks, const Machine &machine) const;

private:
  struct Sum {
    double forward = 0, backward = 0, weights = 0; // seconds; `weights` is what a schedule splits from `backward`
    double dense = 0, expert = 0; // parameters of a rank
    Sum &operator+=(const Sum &o) {
      forward += o.forward, backward += o.backward, weights += o.weights, dense += o.dense, expert += o.expert;
      return *this;
    }
    Sum operator-(const Sum &o) const {
      return {forward - o.forward, backward - o.backward, weights - o.weights, dense - o.dense, expert - o.expert};
    }
  };
  static Sum sumOf(const PartPrices::Of &price, const Part &part, bool splits);

  const Table &table_;
  bool splits_, isSplit_ = false, computesSharedAgain_; // whether gradients of weights may be, and are apart in the table
  Sum before_, shared_, after_;
  std::vector<Sum> until_; // of the layers before each
};

} // namespace llmc::cost

#endif // LLMC_LIB_COST_BOUND_H
