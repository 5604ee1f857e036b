// Bounds the time of a step from below, in no time: what a search need not price is slower than what it has found.
// Tests: test/cost/BoundTest.cpp.
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
  // 2021, section 2.2). Traffic of data-parallel ranks and the update come on top.
  double of(const std::vector<int64_t> &layers, const Machine &machine) const;

private:
  struct Sum {
    double forward = 0, backward = 0, weights = 0; // seconds; `weights` is what a schedule splits from `backward`
    Sum &operator+=(const Sum &o) {
      forward += o.forward, backward += o.backward, weights += o.weights;
      return *this;
    }
  };
  static Sum sumOf(const PartPrices::Of &price, bool splits);

  const Table &table_;
  bool splits_, computesSharedAgain_;
  Sum before_, shared_, after_;
  std::vector<Sum> until_; // of the layers before each
};

} // namespace llmc::cost

#endif // LLMC_LIB_COST_BOUND_H
