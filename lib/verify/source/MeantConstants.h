// Constants of a file as they were meant: 0.70710677 in float32 is the root of a half.
//
// An exporter rounds what a formula says to the type of its tensors, and recognising a
// formula takes the rounding back, so that the model before and after differ by some 1e-8.
// Read with what was meant, they differ by the roundings of double alone. No constant moves
// by more than half a unit in its last place: one that is wrong by more stays wrong.
#ifndef LLMC_LIB_VERIFY_SOURCE_MEANTCONSTANTS_H
#define LLMC_LIB_VERIFY_SOURCE_MEANTCONSTANTS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llmc::verify {

// The exact number that `value` stands for, at most the relative `slack` away from it: n,
// 1/n, their roots and fourth roots, the constants of GELU; else the shortest decimal.
// `value` itself where none of these is so near. `rootSlack` is for those but decimals, where
// it is larger.
double meantValue(double value, double slack, double rootSlack = 0);

// A copy of `module` in which each value that depends on constants alone is one constant,
// computed op by op in its own type (as the file's arithmetic does) and then meant, as are
// the numbers in attributes. It is for evaluation alone: its real constants are of double.
// `changed`: whether any number differs from what `module` computes with.
mlir::OwningOpRef<mlir::ModuleOp> withMeantConstants(mlir::ModuleOp module,
                                                     bool *changed = nullptr);

} // namespace llmc::verify

#endif // LLMC_LIB_VERIFY_SOURCE_MEANTCONSTANTS_H
