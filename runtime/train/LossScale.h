// Follows the scale of the loss in fp16, and counts the steps that were skipped because a gradient
// was not finite (Micikevicius et al., 2018; the numbers are those of torch.amp.GradScaler).
// Tests: test/runtime/LossScaleTest.cpp.
#ifndef LLMC_RUNTIME_TRAIN_LOSSSCALE_H
#define LLMC_RUNTIME_TRAIN_LOSSSCALE_H

#include "lib/support/Error.h"

#include <cmath>
#include <cstdint>

namespace llmc::runtime {

class LossScale {
public:
  static constexpr double kFirst = 65536, kLeast = 1, kMost = 0x1p64;
  static constexpr uint64_t kCleanSteps = 2000; // until the scale is doubled
  static constexpr uint64_t kMostSkips = 10;    // in a row; then the run ends

  // Keeps `fixed` if it is positive, else starts at kFirst and follows the steps.
  explicit LossScale(double fixed) : isFixed_(fixed > 0), value_(isFixed_ ? fixed : kFirst) {}

  double value() const { return value_; }
  bool isFixed() const { return isFixed_; }
  // Counts the steps that changed the weights: those that the optimizer's bias correction sees.
  uint64_t taken() const { return taken_; }
  uint64_t skipped() const { return skipped_; }

  // Records step `number` (from 1), skipped or with a gradient of this norm. Fails at the last of
  // kMostSkips skips in a row.
  support::Status record(uint64_t number, bool skipped, double norm);

private:
  bool isFixed_;
  double value_;
  uint64_t taken_ = 0, skipped_ = 0, clean_ = 0, inRow_ = 0;
  uint64_t lastStep_ = 0; // the last that was taken, 0: none
  double lastNorm_ = NAN;
};

} // namespace llmc::runtime

#endif // LLMC_RUNTIME_TRAIN_LOSSSCALE_H
