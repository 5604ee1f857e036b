// Scales a model down to a smaller one of the same structure. Tested by
// test/verify/twin/IsomorphismTest.cpp.
#ifndef LLMC_LIB_VERIFY_SCALED_SHRINK_H
#define LLMC_LIB_VERIFY_SCALED_SHRINK_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace llmc::verify {

// Reduces the sizes of a raised module in place (as DimScaler.h chooses them). Its sources
// become smaller tensors that are drawn; views into them keep their order. Sizes up to `kept`
// stay; `fewTokens` as in DimScaler.h. Appends to `sizes` what became of which size: "2048 -> 32, 50257 -> 41". Fails with a
// diagnostic if a state's view of a source is not a block of it.
mlir::LogicalResult shrinkModel(mlir::ModuleOp module, int64_t divisor, std::string &sizes,
                                int64_t kept = 0, bool fewTokens = false);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SCALED_SHRINK_H
