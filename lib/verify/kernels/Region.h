// Describes parts of a tensor: along each dim all indices or some of them. Tested by
// test/verify/kernels/ShapesTest.cpp and test/verify/LogSumTest.cpp.
#ifndef LLMC_LIB_VERIFY_KERNELS_REGION_H
#define LLMC_LIB_VERIFY_KERNELS_REGION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace llmc::verify {

// Selects indices along one dim.
struct IndexSet {
  int64_t size = 0;                         // size of the dim
  std::optional<std::vector<int64_t>> some; // increasing, at least one; nullopt: all

  static IndexSet all(int64_t size) { return {size, std::nullopt}; }
  // Selects `indices`, which it sorts and makes unique.
  static IndexSet few(int64_t size, std::vector<int64_t> indices);

  int64_t count() const { return some ? static_cast<int64_t>(some->size()) : size; }
  int64_t at(int64_t i) const { return some ? (*some)[i] : i; }
  // Returns the position of `index` among the selected ones; it must be one of them.
  int64_t placeOf(int64_t index) const;
  // Returns the runs of consecutive indices, as [begin, end).
  std::vector<std::pair<int64_t, int64_t>> runs() const;
};
// Returns the union of two selections of one dim.
IndexSet unite(const IndexSet &a, const IndexSet &b);
// Selects at most `count` indices: the first and last, the ends of vectors and of the parts of
// parallel work, and some in between.
IndexSet spreadIndices(int64_t size, int64_t count);
// Combines selections of factors, most significant first, into one of the merged dim; project()
// returns the indices of each factor that `whole` touches.
IndexSet product(llvm::ArrayRef<IndexSet> factors);
std::vector<IndexSet> project(const IndexSet &whole, llvm::ArrayRef<int64_t> sizes);

using Region = llvm::SmallVector<IndexSet, 4>;
// Returns the region of a whole tensor, the shape and the element count of a region, and the
// union of two regions.
Region wholeOf(llvm::ArrayRef<int64_t> shape);
std::vector<int64_t> shapeOf(const Region &region);
int64_t volume(const Region &region);
Region unite(const Region &a, const Region &b);

// Calls body(i) for every element of `part` in row-major order, i its index in a dense tensor
// that holds the elements of `whole`. Requires that `part` is inside `whole`.
template <typename Body> void walk(const Region &whole, const Region &part, Body body) {
  size_t rank = part.size();
  std::vector<std::vector<int64_t>> places(rank); // empty: identity
  std::vector<int64_t> strides(rank, 1), index(rank, 0);
  for (size_t d = rank; d-- > 1;)
    strides[d - 1] = strides[d] * whole[d].count();
  for (size_t d = 0; d < rank; ++d) {
    if (part[d].count() == 0)
      return;
    if (!part[d].some && !whole[d].some)
      continue;
    for (int64_t i = 0; i < part[d].count(); ++i)
      places[d].push_back(whole[d].placeOf(part[d].at(i)));
  }
  auto at = [&](size_t d) {
    return (places[d].empty() ? index[d] : places[d][index[d]]) * strides[d];
  };
  while (true) {
    int64_t outer = 0;
    for (size_t d = 0; d + 1 < rank; ++d)
      outer += at(d);
    int64_t inner = rank ? part[rank - 1].count() : 1;
    for (int64_t i = 0; i < inner; ++i)
      body(outer + (rank == 0 || places[rank - 1].empty() ? i : places[rank - 1][i]));
    int64_t d = static_cast<int64_t>(rank) - 2;
    for (; d >= 0 && ++index[d] == part[d].count(); --d)
      index[d] = 0;
    if (d < 0)
      return;
  }
}

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_REGION_H
