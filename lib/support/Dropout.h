// Defines which elements dropout drops (Srivastava et al., 2014, "Dropout: A Simple Way to Prevent
// Neural Networks from Overfitting"): a function of integers alone, which loader, evaluator and
// kernels share, so that no mask is ever kept or sent. Test: test/runtime/DropoutTest.cpp.
//
// An element is named by (seed, step, row, layer, place, position, element). The loader folds the
// first three into a key for each row of the batch; a kernel draws one word for each element, under
// that key and the counter (element, position, layer, place).
#ifndef LLMC_LIB_SUPPORT_DROPOUT_H
#define LLMC_LIB_SUPPORT_DROPOUT_H

#include "lib/support/Philox.h"

namespace llmc::support {

// Marks a row of which nothing is dropped or scaled, in place of a key: one of an evaluation.
inline constexpr int64_t kKeepAllKey = -1;

// Returns the key of global row `row` of step `step` (both from 0): at least 0 and below 2^53, so that
// a double holds it too.
constexpr int64_t dropoutKey(uint64_t seed, uint64_t step, uint64_t row) {
  // Uses another key than the weights and the order of samples that are drawn from the same seed.
  std::array<uint32_t, 4> bits =
      philox({uint32_t(row), uint32_t(row >> 32), uint32_t(step), uint32_t(step >> 32)},
             {uint32_t(seed) ^ 0x64726F70, uint32_t(seed >> 32)});
  return static_cast<int64_t>(((uint64_t(bits[0]) << 32) | bits[1]) >> 11);
}

// Returns the number of words, of 2^32, that drop an element: the nearest to `rate`, 0 <= rate < 1.
constexpr uint32_t dropoutThreshold(double rate) {
  double words = rate * 0x1p32 + 0.5;
  return words >= 0xFFFFFFFFp0 ? 0xFFFFFFFF : static_cast<uint32_t>(words);
}

// Names an element within its row.
struct DropoutElement {
  uint32_t layer, place, position, element;
};

// Returns the word that is drawn for an element: it is dropped if the word is below the threshold.
constexpr uint32_t dropoutWord(int64_t key, DropoutElement at) {
  return philox({at.element, at.position, at.layer, at.place},
                {uint32_t(uint64_t(key)), uint32_t(uint64_t(key) >> 32)})[0];
}

} // namespace llmc::support

#endif // LLMC_LIB_SUPPORT_DROPOUT_H
