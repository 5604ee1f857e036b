// Declares the numbers of a matrix product: how they lie in memory, and what elements of the result should
// be. Internal to RunProduct.cpp and RunGrouped.cpp. Tested by test/verify/kernels/ShapesTest.cpp.
#ifndef LLMC_LIB_VERIFY_KERNELS_PRODUCTNUMBERS_H
#define LLMC_LIB_VERIFY_KERNELS_PRODUCTNUMBERS_H

#include "dialects/graph/Evaluate.h"
#include "lib/planfile/Program.h"

#include <cstddef>
#include <vector>

namespace llmc::verify {

// Writes numbers as elements of a type of 32 or 16 bits, and reads element `i`.
void writeNumbers(const std::vector<float> &numbers, planfile::DType type, std::byte *to);
double readNumber(const std::byte *from, planfile::DType type, int64_t i);

// Selects a few columns: the ends, and where vectors and blocks of the library end.
std::vector<int64_t> columnsOf(int64_t n);

// Returns the exact sum and its error bound, as Bounded has them; `before` is what the product is added to.
// With `areEqual`, roundings of equal terms are equal, so that they do not cancel.
graph::Bounded exactSum(const float *a, int64_t aStep, const float *b, int64_t bStep, int64_t k,
                        double before, bool areEqual);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_PRODUCTNUMBERS_H
