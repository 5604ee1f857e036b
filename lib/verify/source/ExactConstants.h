// Restores the exact values of a file's constants: 0.70710677 in float32 means the root of a
// half. Tested by test/verify/fromfile/FromFileTest.cpp.
//
// An exporter rounds the numbers of a formula to the type of its tensors, and recognizing the
// formula undoes the rounding, so that the model before and after differs by some 1e-8. With
// restored constants both differ by the roundings of double alone. No constant moves by more than
// half a unit in its last place: one that is wrong by more stays wrong.
#ifndef LLMC_LIB_VERIFY_SOURCE_EXACTCONSTANTS_H
#define LLMC_LIB_VERIFY_SOURCE_EXACTCONSTANTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc::verify {

// Returns the exact number that `value` rounds, at most a relative `slack` away: n, 1/n, their
// square and fourth roots, the constants of GELU; else the shortest decimal. Returns `value` if
// none is so near. `rootSlack`, if larger, applies to all of these but decimals.
double exactValue(double value, double slack, double rootSlack = 0);

// Returns a copy of `module` in which each value that depends on constants alone is one constant,
// computed op by op in its own type (as the file's arithmetic does) and then restored, as are
// float attributes. The copy is for evaluation only: its float constants are of type double.
// Stores in `changed` whether any number differs from what `module` computes with.
mlir::OwningOpRef<mlir::ModuleOp> withExactConstants(mlir::ModuleOp module,
                                                     bool *changed = nullptr);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_EXACTCONSTANTS_H
