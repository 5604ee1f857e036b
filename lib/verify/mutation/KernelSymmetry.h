// Tests whether a kernel is symmetric in two of its operands.
#ifndef LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H
#define LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H

#include "lib/planfile/Program.h"
#include "runtime/compute/Kernels.h"

namespace llmc::verify {

// Runs the launch alone on drawn floats, then with operands `a` and `b` exchanged; returns
// whether all results are equal up to float rounding. The operands must be of one size, and every
// buffer of the launch must hold floats.
bool isSymmetric(const planfile::LaunchT &launch, runtime::KernelFunction kernel, uint32_t a,
                 uint32_t b);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H
