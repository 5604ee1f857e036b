// Grouped heads where no op says so: kv heads that a model broadcasts to its heads.
#ifndef LLMC_PASSES_SHARD_REPEATKVHEADS_REGROUP_H
#define LLMC_PASSES_SHARD_REPEATKVHEADS_REGROUP_H

#include "dialects/graph/Graph.h"

namespace llmc {

// If `op` makes values of [.., kv heads, repeats, ..] (a broadcast, or in the backward pass a
// reshape that parts heads) which are only moved and changed element by element until
// the two are merged, or the repeats summed: makes the kv heads as many as `parts` ranks
// can share, the repeats fewer. Values at the ends stay what they are. False if there is
// no such thing, or no need.
bool regroupHeads(mlir::Operation *op, int64_t parts);

} // namespace llmc

#endif // LLMC_PASSES_SHARD_REPEATKVHEADS_REGROUP_H
