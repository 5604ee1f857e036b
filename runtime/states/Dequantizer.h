// Dequantizes tensors of 8-bit and 4-bit numbers: each number is multiplied by the scale of
// its block. The test is test/runtime/DequantizerTest.cpp.
#ifndef LLMC_RUNTIME_STATES_DEQUANTIZER_H
#define LLMC_RUNTIME_STATES_DEQUANTIZER_H

#include "lib/support/Error.h"
#include "runtime/states/ShardReader.h"

#include <cstdint>
#include <vector>

namespace llmc::runtime {

// Reads runs of elements of one tensor. Runs in ascending order read each scale about once.
class Dequantizer {
public:
  // Returns whether the numbers of the tensor's type must be dequantized.
  static bool takes(const StoredTensor &tensor);
  // Prepares to read `tensor`, which must outlive this object.
  explicit Dequantizer(const StoredTensor &tensor);

  // Reads elements [first, first + count), in the order of the file, into `to`. T is float,
  // double, support::BfloatNumber or support::HalfNumber; the product is computed in float and
  // rounded to T. Fails if the file cannot be read.
  template <class T>
  support::Status read(int64_t first, int64_t count, T *to);

private:
  int64_t scaleOf(int64_t row, int64_t column) const; // index of its scale
  support::Status loadScales(int64_t first, int64_t last);
  template <class T>
  void decode(int64_t first, int64_t count, T *to) const;
  template <class T>
  void decodeRun(int64_t place, int64_t count, float scale, T *to) const;

  const StoredTensor &tensor;
  const float *const table;
  int64_t rows = 1, columns = 1;         // of each matrix of the tensor
  int64_t scaleRows = 0, scaleColumns = 0; // blocks of each matrix
  int64_t scaleCount = 0;                // scales of the whole tensor
  int64_t firstScale = 0;                // index of scales[0]
  std::vector<float> scales;
  std::vector<uint8_t> codes; // bytes of the run, from element `firstCode` on
  int64_t firstCode = 0;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_STATES_DEQUANTIZER_H
