// Declares the dense products of which evaluate() of matmul and of grouped products is made. Test:
// test/dialects/graph/Formulas.cpp.
#ifndef LLMC_DIALECTS_GRAPH_PRODUCT_H
#define LLMC_DIALECTS_GRAPH_PRODUCT_H

#include "dialects/graph/Scalars.h"

#include <vector>

namespace llmc::graph {

// Describes a product as batches of [m, k] by [k, n].
struct ProductSizes {
  int64_t batch, m, k, n;
};

// Returns [batch, m, n], each element a sum of its terms in order; a Bounded one has the errors of the
// operands and the roundings of k terms in any order.
std::vector<double> product(const std::vector<double> &x, const std::vector<double> &y,
                            const ProductSizes &sizes);
std::vector<Dual> product(const std::vector<Dual> &x, const std::vector<Dual> &y,
                          const ProductSizes &sizes);
std::vector<Bounded> product(const std::vector<Bounded> &x, const std::vector<Bounded> &y,
                             const ProductSizes &sizes);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_PRODUCT_H
