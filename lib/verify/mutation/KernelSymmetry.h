// Tests whether a kernel is symmetric in two of its operands. Tested by
// test/verify/KernelSymmetryTest.cpp.
#ifndef LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H
#define LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H

#include "lib/planfile/Program.h"
#include "runtime/compute/Kernels.h"

#include <string_view>

namespace llmc::verify {

// Runs the launch alone on drawn floats, then with operands `a` and `b` exchanged; returns
// whether all results are equal up to float rounding. The operands must be of one size. Returns
// false without a run if the kernel, made from the ops `source` (Kernel.source), reads integers:
// drawn floats would be indices outside of its tables.
bool isSymmetric(const planfile::LaunchT &launch, std::string_view source,
                 runtime::KernelFunction kernel, uint32_t a, uint32_t b);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_MUTATION_KERNELSYMMETRY_H
