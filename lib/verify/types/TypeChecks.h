// Checks that types are what the options ask for, and that numbers are no worse than they.
// Tests: test/verify/TypesTest.cpp, test/numerics/precision.py.
#ifndef LLMC_LIB_VERIFY_TYPES_TYPECHECKS_H
#define LLMC_LIB_VERIFY_TYPES_TYPECHECKS_H

#include "lib/verify/reference/Reference.h"
#include "lib/verify/subject/Report.h"

namespace llmc::verify {

// Adds types:RULE, the faults that censusOfTypes() finds in a module at boundary partition, and of
// a training step types:rounded:...: steps of all ranks whose numbers are rounded to the types of
// their values; masters, moments and norm then differ from the optimizer's equations by
// roundings of f32 alone, and each weight is its master rounded. Adds
// nothing where `options` name no low precision. Returns whether all pass.
bool checkTypes(mlir::ModuleOp module, const CompileOptions &options, const Trial &trial,
                Report &report);

// Adds updates:skip, of a module at boundary train or partition whose update tells whether it was
// skipped: one gradient of one rank is infinite or not a number, and no rank may change a parameter,
// a master or a moment; without it none may skip. Adds nothing if the update always takes place.
bool checkSkip(mlir::ModuleOp module, const Trial &trial, Report &report);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_TYPES_TYPECHECKS_H
