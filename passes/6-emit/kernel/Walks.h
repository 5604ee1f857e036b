// What the loops and sums of a kernel say of themselves, for whoever deals them out to
// threads. Without threads these attributes mean nothing.
#ifndef LLMC_PASSES_EMIT_KERNEL_WALKS_H
#define LLMC_PASSES_EMIT_KERNEL_WALKS_H

#include "llvm/ADT/StringRef.h"

namespace llmc::emit {

// Of an scf.for: its turns do not look at each other. "rows" walk over rows, "elements" over
// vectors of elements, "terms" over what is added up at an element; what the last two carry
// are sums or maxima so far.
inline constexpr llvm::StringLiteral kWalk = "llmc.walk", kRows = "rows", kElements = "elements",
                                     kTerms = "terms";
// Of an op: its result, "sum" or "max", comes from what walks over elements carried, and is
// wanted over all of them. Of a walk over terms: the same of each of its results.
inline constexpr llvm::StringLiteral kCombined = "llmc.combined", kSum = "sum", kMax = "max";
// Of a function for threads: how many buffers and scalars it takes; or that it has no body,
// because a library does its work.
inline constexpr llvm::StringLiteral kParameters = "llmc.parameters", kLibrary = "llmc.library";

} // namespace llmc::emit

#endif // LLMC_PASSES_EMIT_KERNEL_WALKS_H
