// Declares the tests beside the random launches of Main.cpp.
#ifndef LLMC_TEST_PASSES_EMIT_UNITTESTS_H
#define LLMC_TEST_PASSES_EMIT_UNITTESTS_H

#include "mlir/IR/MLIRContext.h"
#include "passes/6-emit/kernel/KernelTarget.h"

namespace llmc::test {

// Sweeps each expanded function over all of float32's exponents and its special
// values, against float64 of the C library, in units of the last place.
void checkUnitsInLastPlace(mlir::MLIRContext &context, const emit::KernelTarget &target,
                           int &passed, int &failed);

// Checks results that are too large for a cache.
void checkLarge(mlir::MLIRContext &context, const emit::KernelTarget &target, int &passed,
                int &failed);

// Checks rows that are no whole number of vectors.
void checkEdges(mlir::MLIRContext &context, const emit::KernelTarget &target, int &passed,
                int &failed);

// Checks threads at elements beyond what 32 bits count.
void checkFar(mlir::MLIRContext &context, int &passed, int &failed);

// Checks a small plan, written and read back.
void checkWritePlan(mlir::MLIRContext &context, int &passed, int &failed);

// Checks the same for experts, exchanges, rings and inputs that are cut.
void checkWriteForms(mlir::MLIRContext &context, int &passed, int &failed);

// Checks random equations as calls of one batch, m, n and k.
void checkEquations(mlir::MLIRContext &context, int64_t draws, int64_t seed, int &passed,
                    int &failed);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_UNITTESTS_H
