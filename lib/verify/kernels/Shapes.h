// Checks every kernel of a plan at its real sizes against the reference meaning of its body.
// Tested by test/verify/kernels/ShapesTest.cpp.
#ifndef LLMC_LIB_VERIFY_KERNELS_SHAPES_H
#define LLMC_LIB_VERIFY_KERNELS_SHAPES_H

#include "lib/support/Progress.h"
#include "lib/verify/subject/Report.h"
#include "lib/verify/subject/Subject.h"

namespace llmc::verify {

// Bounds the bytes of operands of a launch that is run as a whole.
inline constexpr uint64_t kMostOperandBytes = uint64_t(1) << 30;

// Runs every distinct launch and product of the plan alone, on drawn operands, and compares some
// elements of its results with the reference. Adds kernels:shapes for usual numbers and
// ranges:large, :tiny, :equal, :masked and :outliers for others. Values are errors divided by
// limits that bound rounding errors alone. Of launches with more than `mostBytes` of operands only some
// slices are run, where they are computed apart. Uses all cores.
void checkShapes(const Subject &subject, uint64_t seed, Report &report,
                 support::Progress *progress = nullptr, uint64_t mostBytes = kMostOperandBytes);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_SHAPES_H
