// What the loader does with an input of a micro-batch before ranks read their parts: it makes one
// that nobody gives, and permutes blocks of a dim. Said by the attribute `graph.loader` of the
// function's argument, then by the input's entry in `graph.inputs` and its `plan.buffer`'s binding:
//
//   default       "zeros", "ones", "positions" or "row_ids"
//   permuted_dim  a dim behind the rows, with
//   block_order   a permutation: block b of what ranks read is block block_order[b] of what is given
//
// All may be missing.
#ifndef LLMC_DIALECTS_PARALLEL_LOADER_H
#define LLMC_DIALECTS_PARALLEL_LOADER_H

#include "dialects/graph/GraphAttrs.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <string>

namespace llmc::parallel {

using graph::kLoader;

// Returns the entries of a dictionary that a loader reads.
llvm::SmallVector<mlir::NamedAttribute> loaderEntries(mlir::DictionaryAttr from);

// Says what is wrong with them for an input of these dims, for a person; empty if nothing is. Where
// the dims are a rank's part (`isPart`), whether blocks fit the permuted dim is not looked at.
std::string faultOfLoader(mlir::DictionaryAttr loader, llvm::ArrayRef<int64_t> shape, bool isPart);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_LOADER_H
