// Computes the table of a mesh from tables of others: each number of a table is affine in the rows of a micro-batch and in
// the shares of data-parallel ranks and of ranks of experts. Tests: test/search/SampledTablesTest.cpp (beside tables that
// were read).
#ifndef LLMC_LIB_COST_INTERPOLATION_H
#define LLMC_LIB_COST_INTERPOLATION_H

#include "lib/cost/Table.h"

namespace llmc::cost {

// Adds to `sum` so much of what `sample` has more than `base`: `share` of all numbers. Sizes and strides of groups are products
// of sizes of axes: what grows with the axis by which the sample has `from` times the ranks of the base grows by `to`. False if
// the tables have other kernels or collectives, and `sum` is then as it was.
bool addDifference(Table &sum, const Table &base, const Table &sample, double share, double from, double to);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_INTERPOLATION_H
