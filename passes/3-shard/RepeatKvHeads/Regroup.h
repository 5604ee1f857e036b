// Regroups kv heads that a model broadcasts to its heads itself, without an attention op. Test:
// test/passes/3-shard/repeat-kv-heads.mlir.
#ifndef LLMC_PASSES_SHARD_REPEATKVHEADS_REGROUP_H
#define LLMC_PASSES_SHARD_REPEATKVHEADS_REGROUP_H

#include "dialects/graph/Graph.h"

namespace llmc {

// Makes the kv heads as many as `parts` ranks can share, and their repeats fewer, if `op` makes
// values of [.., kv heads, repeats, ..] (a broadcast, or a reshape of the backward pass that splits
// heads). All users until the two dims are merged, or the repeats summed, must move data or be
// elementwise; values at the ends keep their types. Returns false and changes nothing if the
// pattern does not match, or kv heads divide already.
bool regroupHeads(mlir::Operation *op, int64_t parts);

} // namespace llmc

#endif // LLMC_PASSES_SHARD_REPEATKVHEADS_REGROUP_H
