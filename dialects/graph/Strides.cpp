#include "dialects/graph/Strides.h"

#include "llvm/ADT/STLExtras.h"

namespace llmc::graph {

using namespace mlir;

std::optional<SmallVector<int64_t>> stridesAfterReshape(ArrayRef<int64_t> from,
                                                        ArrayRef<int64_t> strides,
                                                        ArrayRef<int64_t> to) {
  // Merges dims that lie behind one another in memory into runs, outermost first.
  SmallVector<std::pair<int64_t, int64_t>> runs; // size, stride of the innermost element
  for (auto [size, stride] : llvm::zip_equal(from, strides)) {
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().second == stride * size)
      runs.back() = {runs.back().first * size, stride};
    else
      runs.push_back({size, stride});
  }
  SmallVector<int64_t> result(to.size(), 1);
  int64_t left = 1, stride = 1; // what is left of the current run
  for (size_t i = to.size(); i-- > 0;) {
    if (to[i] == 1)
      continue;
    if (left == 1) {
      if (runs.empty())
        return std::nullopt;
      std::tie(left, stride) = runs.pop_back_val();
    }
    if (to[i] == 0 || left % to[i])
      return std::nullopt;
    result[i] = stride;
    stride *= to[i];
    left /= to[i];
  }
  return left == 1 && runs.empty() ? std::optional(result) : std::nullopt;
}

} // namespace llmc::graph
