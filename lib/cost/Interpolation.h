// Computes the table of a mesh from tables of others: each number of a table is affine in the rows of a micro-batch and in
// the shares of data-parallel ranks and of ranks of experts; of products of several experts the depth of all together is. Tests: test/search/SampledTablesTest.cpp (beside tables that
// were read).
#ifndef LLMC_LIB_COST_INTERPOLATION_H
#define LLMC_LIB_COST_INTERPOLATION_H

#include "lib/cost/Table.h"

namespace llmc::cost {

// Holds what a table consists of: numbers that are affine, counts of experts, sizes and strides of groups, and the rest, which is
// structure: equal in tables of the same kernels and collectives. Those of the update, once a step, are apart from those of passes.
struct TableNumbers {
  struct Lists {
    std::vector<double> numbers;
    std::vector<int64_t> counts, groups, structure;
  };
  Lists passes, update;
};

TableNumbers numbersOf(const Table &table);

// Adds to `sum` so much of what `sample` has more than `base`: `share` of all numbers. Sizes and strides of groups are products
// of sizes of axes: what grows with the axis by which the sample has `from` times the ranks of the base grows by `to`.
// `forPasses`: of passes alone. False if the tables have other kernels or collectives.
bool addDifference(TableNumbers &sum, const TableNumbers &base, const TableNumbers &sample, double share, double from, double to,
                   bool forPasses);

// Sets the numbers of a table of the same structure; `forPasses`: those of passes alone.
void setNumbers(Table &table, const TableNumbers &numbers, bool forPasses);

} // namespace llmc::cost

#endif // LLMC_LIB_COST_INTERPOLATION_H
