// Computes which elements of an input's batch a rank takes, and where the loader puts them.
// Tests: test/runtime/DataTest.cpp, test/runtime/InferenceTest.cpp.
#ifndef LLMC_LIB_PLANFILE_INPUTS_H
#define LLMC_LIB_PLANFILE_INPUTS_H

#include "lib/planfile/Program.h"

#include <cstdint>
#include <vector>

namespace llmc::planfile {

// Returns the shape of all ranks' parts of one micro-batch (of an Infer program: of the whole
// input): rows of all batch ranks, and the other dims as they are before they are cut.
std::vector<int64_t> wholeShape(const MeshT &mesh, const InputBindingT &input);

// Returns for each element i of a row its index in the permuted row that ranks' parts are cut
// from; empty if the loader permutes nothing.
std::vector<uint64_t> permutedIndices(const MeshT &mesh, const InputBindingT &input);

// Returns the index of the first element of a rank's part in a micro-batch that is dense in
// wholeShape().
uint64_t firstElement(const MeshT &mesh, const InputBindingT &input,
                      const std::vector<uint32_t> &coordinate);

// Calls f(element of the part, element of the whole counted from firstElement(), count) for all
// runs of elements that are contiguous in both.
template <class F>
void forEachInputRun(const std::vector<int64_t> &local, const std::vector<int64_t> &whole,
                     F &&f) {
  // Finds the dims from `inner` on, which are whole: they and the one before make a run.
  size_t inner = local.size();
  while (inner > 0 && local[inner - 1] == whole[inner - 1])
    --inner;
  uint64_t run = 1, runs = 1;
  for (size_t d = inner > 0 ? inner - 1 : 0; d < local.size(); ++d)
    run *= static_cast<uint64_t>(local[d]);
  for (size_t d = 0; d + 1 < inner; ++d)
    runs *= static_cast<uint64_t>(local[d]);
  for (uint64_t r = 0; r < runs && run > 0; ++r) {
    uint64_t rest = r, at = 0, stride = 1;
    for (size_t d = local.size(); d-- > 0; stride *= static_cast<uint64_t>(whole[d]))
      if (d + 1 < inner) {
        at += rest % static_cast<uint64_t>(local[d]) * stride;
        rest /= static_cast<uint64_t>(local[d]);
      }
    f(r * run, at, run);
  }
}

} // namespace llmc::planfile

#endif // LLMC_LIB_PLANFILE_INPUTS_H
