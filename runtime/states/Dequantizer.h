// Numbers of 8 and 4 bits in a file, each times the scale of its block.
#ifndef LLMC_RUNTIME_STATES_DEQUANTIZER_H
#define LLMC_RUNTIME_STATES_DEQUANTIZER_H

#include "lib/support/Error.h"
#include "runtime/states/ShardReader.h"

#include <cstdint>
#include <vector>

namespace llmc::runtime {

// Reads runs of one tensor. Those in ascending order read each scale about once.
class Dequantizer {
public:
  // Whether numbers of that type have to be dequantised.
  static bool takes(const StoredTensor &tensor);
  // `tensor` must outlive this object.
  explicit Dequantizer(const StoredTensor &tensor);

  // Elements [first, first + count) of the tensor as the file has it. T is float or double; the
  // product is that of floats.
  template <class T>
  support::Status read(int64_t first, int64_t count, T *to);

private:
  int64_t scaleOf(int64_t row, int64_t column) const; // which of the scales
  support::Status loadScales(int64_t first, int64_t last);
  template <class T>
  void decode(int64_t first, int64_t count, T *to) const;
  template <class T>
  void decodeRun(int64_t place, int64_t count, float scale, T *to) const;

  const StoredTensor &tensor;
  const float *const table;
  int64_t rows = 1, columns = 1;         // of each matrix of the tensor
  int64_t scaleRows = 0, scaleColumns = 0; // of its scales
  int64_t scaleCount = 0;                // of all
  int64_t firstScale = 0;                // that `scales` has
  std::vector<float> scales;
  std::vector<uint8_t> codes; // bytes of the run, from `firstCode` on
  int64_t firstCode = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_DEQUANTIZER_H
