#ifndef LLMC_TEST_PASSES_EMIT_UNITSINLASTPLACE_H
#define LLMC_TEST_PASSES_EMIT_UNITSINLASTPLACE_H

#include "mlir/IR/MLIRContext.h"

namespace llmc::test {

// Sweeps each expanded function over all of float32's exponents and its special
// values, against float64 of the C library, in units of the last place.
void checkUnitsInLastPlace(mlir::MLIRContext &context, int &passed, int &failed);

} // namespace llmc::test

#endif // LLMC_TEST_PASSES_EMIT_UNITSINLASTPLACE_H
