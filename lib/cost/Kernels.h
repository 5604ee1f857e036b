// Prices kernels from their shapes, in seconds. Tests: test/cost.
#ifndef LLMC_LIB_COST_KERNELS_H
#define LLMC_LIB_COST_KERNELS_H

#include "lib/cost/Cluster.h"
#include "lib/cost/Constants.h"
#include "lib/cost/Software.h"
#include "lib/cost/Table.h"

namespace llmc::cost {

// Holds what all prices of one run share.
struct Machine {
  Cluster cluster;
  Choices choices;
  Constants constants;

  // Returns the dense peak of the products' precision, FLOP/s.
  double peak(bool isHead = false) const;
  // Returns what a long run sustains of the rates of the curves.
  double sustained() const;
  // Returns by what all takes longer on so many ranks: 0.4 % for each doubling beyond a node, since the slowest of more ranks
  // sets the pace.
  double pace(double ranks) const;
  // Returns the seconds that so many bytes take from or to memory.
  double memory(double bytes) const;
};

// Returns the seconds of one product: the curve of the cluster, at the sustained rate. The head computes in 16 bits
// where layers do in 8 (Transformer Engine casts linear layers of a block alone).
double timeOf(const Machine &machine, const Product &product, bool isHead = false);
// Returns the seconds of attention, with the kernel of the choices.
double timeOf(const Machine &machine, const Attention &attention);
// Returns the seconds of so many counted bytes of elementwise ops and row reductions, of so many operations.
double elementwiseTime(const Machine &machine, double bytes, double operations);
} // namespace llmc::cost

#endif // LLMC_LIB_COST_KERNELS_H
