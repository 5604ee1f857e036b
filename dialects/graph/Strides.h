// Computes how the elements of a reshaped tensor lie in memory. Tested by the cases of
// test/passes/1-raise/fold-views.mlir and test/import.
#ifndef LLMC_DIALECTS_GRAPH_STRIDES_H
#define LLMC_DIALECTS_GRAPH_STRIDES_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace llmc::graph {

// Returns the strides under which a tensor of shape `from` and `strides` is one of shape `to` (1
// where `to` is 1), or nothing if no strides are.
std::optional<llvm::SmallVector<int64_t>> stridesAfterReshape(llvm::ArrayRef<int64_t> from,
                                                              llvm::ArrayRef<int64_t> strides,
                                                              llvm::ArrayRef<int64_t> to);

} // namespace llmc::graph

#endif // LLMC_DIALECTS_GRAPH_STRIDES_H
