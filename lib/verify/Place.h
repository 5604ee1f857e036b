// Where a wrong number comes from, in words.
#ifndef LLMC_LIB_VERIFY_PLACE_H
#define LLMC_LIB_VERIFY_PLACE_H

#include "lib/verify/Verify.h"

namespace llmc::verify {

// Names the tensor that parts from the model's last in forward order (a fault
// spreads to what comes before it in backward), the op that reads it, and the
// ranks that hold wrong elements of it. Empty if nothing is known.
std::string describePlace(mlir::ModuleOp module, const Outcome &got, const Reference &reference);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_PLACE_H
