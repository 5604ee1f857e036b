// Whether a kernel does not care which of two operands is which.
#ifndef LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H
#define LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H

#include "lib/planfile/Program.h"
#include "runtime/compute/Kernels.h"

namespace llmc::verify {

// Runs the launch alone on drawn floats, then with operands `a` and `b` exchanged: returns
// whether each result is the same up to float rounding. Both operands are of one size.
bool isSymmetric(const planfile::LaunchT &launch, runtime::KernelFunction kernel, uint32_t a,
                 uint32_t b);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H
