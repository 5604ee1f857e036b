#include "runtime/train/LossScale.h"

#include <algorithm>

using namespace llmc;
using namespace llmc::runtime;

support::Status LossScale::record(uint64_t number, bool skipped, double norm) {
  if (!skipped) {
    ++taken_;
    inRow_ = 0;
    lastStep_ = number;
    lastNorm_ = norm;
    if (!isFixed_ && ++clean_ == kCleanSteps) {
      clean_ = 0;
      value_ = std::min(2 * value_, kMost);
    }
    return support::ok();
  }
  ++skipped_;
  clean_ = 0;
  if (!isFixed_)
    value_ = std::max(value_ / 2, kLeast);
  if (++inRow_ < kMostSkips)
    return support::ok();
  if (lastStep_ == 0)
    return support::error("the gradients of the first ", kMostSkips,
                          " steps were not finite, so that no step has changed the weights: look "
                          "at the weights that were read, and at these rows");
  return support::error("the gradients of ", kMostSkips,
                        " steps in a row were not finite; their last finite norm was ", lastNorm_,
                        " at step ", lastStep_, "; lower --lr, raise --warmup, or look at these rows");
}
