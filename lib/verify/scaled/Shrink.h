// A smaller model of the same structure.
#ifndef LLMC_LIB_VERIFY_SCALED_SHRINK_H
#define LLMC_LIB_VERIFY_SCALED_SHRINK_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace llmc::verify {

// Divides the widths of a raised module, in place (DimClasses.h says how). Its
// sources become smaller tensors that are drawn; views into them keep their order.
// Sizes up to `kept` stay. `sizes` tells what became of which size: "2048 -> 32, 50257 -> 41".
// Fails with a diagnostic if states view a source in a way that does not divide.
mlir::LogicalResult shrinkModel(mlir::ModuleOp module, int64_t divisor, std::string &sizes,
                                int64_t kept = 0);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SCALED_SHRINK_H
