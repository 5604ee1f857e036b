// Stores the numbers of matrices and sums what single elements of a product should be.
#include "lib/verify/kernels/ProductNumbers.h"

#include "lib/support/ElementType.h"

#include <cmath>
#include <set>

namespace llmc::verify {

using graph::Bounded;
using planfile::DType;

void writeNumbers(const std::vector<float> &numbers, DType type, std::byte *to) {
  auto *floats = reinterpret_cast<float *>(to);
  auto *bits = reinterpret_cast<uint16_t *>(to);
  for (size_t i = 0; i < numbers.size(); ++i)
    if (type == DType::F32)
      floats[i] = numbers[i];
    else
      bits[i] = type == DType::BF16 ? support::floatToBfloat(numbers[i])
                                    : support::floatToHalf(numbers[i]);
}

double readNumber(const std::byte *from, DType type, int64_t i) {
  if (type == DType::F32)
    return reinterpret_cast<const float *>(from)[i];
  uint16_t bits = reinterpret_cast<const uint16_t *>(from)[i];
  return type == DType::BF16 ? support::bfloatToFloat(bits) : support::halfToFloat(bits);
}

// Selects a few columns: the ends, and where vectors and blocks of the library end.
std::vector<int64_t> columnsOf(int64_t n) {
  std::set<int64_t> columns{0, n - 1};
  for (int64_t j : {int64_t(7), int64_t(8), int64_t(63), int64_t(64), n / 3, n / 2, n * 5 / 7,
                    n - 8, n - 9, n / 16 * 16, n / 16 * 16 - 1})
    if (j >= 0 && j < n)
      columns.insert(j);
  return {columns.begin(), columns.end()};
}

// Returns the exact sum and its error bound, as Bounded has them; `before` is what the product is
// added to. Roundings of equal terms are equal, so that they do not cancel.
Bounded exactSum(const float *a, int64_t aStep, const float *b, int64_t bStep, int64_t k,
                 double before, bool areEqual) {
  double sum = before, magnitude = 0;
  for (int64_t i = 0; i < k; ++i) {
    double x = double(a[i * aStep]) * double(b[i * bStep]);
    sum += x;
    magnitude += std::fabs(x);
  }
  double error = (1 + (areEqual ? double(k) : std::sqrt(double(k)))) * magnitude +
                 std::fabs(before) + std::fabs(sum);
  return Bounded::rounded(sum, error, false, 0);
}

} // namespace llmc::verify
