// Compares the updates of an interpreted module with the equations of the papers. Tested by
// test/verify/fromfile/FromFileTest.cpp.
#ifndef LLMC_LIB_VERIFY_INTERPRET_COMPAREUPDATES_H
#define LLMC_LIB_VERIFY_INTERPRET_COMPAREUPDATES_H

#include "lib/verify/interpret/Interpret.h"
#include "lib/verify/interpret/UpdateEquations.h"

namespace llmc::verify {

// Returns a callback for interpret() that compares what each step of `module`, which is at
// boundary train or partition, leaves with UpdateEquations.h and keeps the worst in `errors`,
// which must outlive it.
AfterStep compareUpdates(mlir::ModuleOp module, bool adamw, UpdateErrors &errors);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_INTERPRET_COMPAREUPDATES_H
