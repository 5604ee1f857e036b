// Describes where a wrong number was computed. Reads what it is given and changes nothing. Tested
// by test/verify/FaultLocationTest.cpp.
#ifndef LLMC_LIB_VERIFY_FAULTLOCATION_H
#define LLMC_LIB_VERIFY_FAULTLOCATION_H

#include "lib/verify/reference/Reference.h"

namespace llmc::verify {

// Returns a sentence on the parameter whose gradient differs, the last such in forward order (in
// the backward pass a fault spreads to all that come before it), the op that reads it, and the
// ranks whose shards hold wrong elements. For an inference it names the first three wrong
// outputs. Returns "" if `got` has neither losses nor results.
std::string describeFaultLocation(mlir::ModuleOp module, const Outcome &got,
                                  const Reference &reference);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_FAULTLOCATION_H
