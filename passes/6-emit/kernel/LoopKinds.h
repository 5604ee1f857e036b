// Declares the attributes that mark loops and sums of a kernel for the passes that distribute
// them over threads. Without threads these attributes have no effect. Tests:
// test/passes/6-emit/map-to-threads*.mlir.
#ifndef LLMC_PASSES_EMIT_KERNEL_LOOPKINDS_H
#define LLMC_PASSES_EMIT_KERNEL_LOOPKINDS_H

#include "llvm/ADT/StringRef.h"

namespace llmc::emit {

// Marks an scf.for whose iterations are independent: "rows" iterates over rows, "elements" over
// vectors of elements, "terms" over what is added up at an element; the values that the last two
// carry are partial sums or maxima.
inline constexpr llvm::StringLiteral kLoopKind = "llmc.loop_kind", kRows = "rows",
                                     kElements = "elements", kTerms = "terms";
// Marks an op whose result is the "sum" or "max" of what loops over elements carried, and is to
// be combined over all of them. On a loop over terms it is an array, one entry for each result.
inline constexpr llvm::StringLiteral kCombined = "llmc.combined", kSum = "sum", kMax = "max";
// Records on a function for threads how many buffers and scalars it takes; or that it has no
// body, because a library does its work.
inline constexpr llvm::StringLiteral kParameters = "llmc.parameters", kLibrary = "llmc.library";

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_LOOPKINDS_H
