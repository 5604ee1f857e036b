// Describes how the loader makes an input of a micro-batch before ranks read their shards: it makes
// one that nobody gives, and permutes blocks of a dim (test/passes/5-schedule/InputsTest.cpp). The
// attribute `graph.loader` of the function's argument holds the entries, later the input's entry in
// `graph.inputs` and the binding of its `plan.buffer`:
//
//   default       "zeros", "ones", "positions" or "row_ids"
//   permuted_dim  a dim behind the rows, with
//   block_order   a permutation: ranks read as block b the given block block_order[b]
//
// All may be missing.
#ifndef LLMC_DIALECTS_PARALLEL_LOADER_H
#define LLMC_DIALECTS_PARALLEL_LOADER_H

#include "dialects/graph/GraphAttrs.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <string>

namespace llmc::parallel {

using graph::kLoader;

// Returns the entries of `from` that a loader reads; none of a null dictionary.
llvm::SmallVector<mlir::NamedAttribute> loaderEntries(mlir::DictionaryAttr from);

// Returns what is wrong with the loader of an input of this shape, for a person; empty if nothing
// is. If the shape is that of a rank's shard (`isPart`), it does not check that blocks divide the
// permuted dim.
std::string describeLoaderFault(mlir::DictionaryAttr loader, llvm::ArrayRef<int64_t> shape,
                                bool isPart);

} // namespace llmc::parallel

#endif // LLMC_DIALECTS_PARALLEL_LOADER_H
