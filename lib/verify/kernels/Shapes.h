// Every kernel of a plan at its real sizes against the meaning of what it computes.
#ifndef LLMC_LIB_VERIFY_KERNELS_SHAPES_H
#define LLMC_LIB_VERIFY_KERNELS_SHAPES_H

#include "lib/support/Progress.h"
#include "lib/verify/subject/Report.h"
#include "lib/verify/subject/Subject.h"

namespace llmc::verify {

// Runs every distinct launch and product of the plan alone, on drawn operands, and compares
// some elements of its results with what its body means. kernels:shapes has usual numbers;
// ranges:large, :tiny, :equal, :masked and :outliers others. Values are errors, of their limits,
// which come of bounds on rounding errors alone. On all cores.
void checkShapes(const Subject &subject, uint64_t seed, Report &report,
                 support::Progress *progress = nullptr);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_KERNELS_SHAPES_H
