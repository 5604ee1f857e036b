// Lists the passes of phase 3 in order, with the reason for each place in it.
#include "passes/3-shard/Pipeline.h"

#include "passes/3-shard/Passes.h"

namespace llmc {

void buildShardPipeline(mlir::OpPassManager &pm, const ShardOptions &options) {
  // The program is one global view, and no op belongs to the mesh yet. Rings come first: their heads
  // are not cut over cp, so that fewer are repeated.
  if (options.ring)
    pm.addPass(createMarkRings());
  // Heads are repeated where the mesh has more tp ranks than kv heads, while nothing is annotated.
  pm.addPass(createRepeatKvHeads());
  // Stages come first of the tactics: they decide which ranks compute an op, the others how it is
  // cut there.
  pm.addPass(createAssignStages());
  // Names of axes are products of atomic axes, and two may share some: experts take
  // axes of the data group, a sequence that is cut in norms those of tensors. An op
  // uses an axis once, so tactics seed in the order in which the more special cut wins:
  // stages, expert, data, tensor, context, sequence, state.
  // Experts before rows: rows may be cut over the axes of experts too, but experts over no axis that has
  // cut their product.
  pm.addPass(createShardExpert());
  // Rows before features: what the data axes leave whole is all that the
  // tensor axes may cut, and no later tactic may undo it.
  pm.addPass(createShardData());
  pm.addPass(createShardTensor());
  // Heads that the tensor axes have cut are cut further, and tokens before the tensor axes cut these
  // further, so that each all-to-all stays within the ranks of a context; a ring takes tokens alone.
  pm.addPass(createShardContext());
  // Takes what the tensor axes have not used: between a row cut and the next column cut they may cut
  // the sequence.
  if (options.sequenceParallel)
    pm.addPass(createShardSequence());
  // States that stay whole on every rank of a data group are shared out among them, without regard
  // to dimensions: only marks are made here, since they cut no op.
  ShardStateOptions state;
  state.zero = options.zero;
  pm.addPass(createShardState(state));
  // All cuts are made: what differs from the annotations of the model's file is an error.
  pm.addPass(createCheckAnnotations());
  // Partitioning relies on the annotations, so they are checked once more.
  if (options.verifies)
    pm.addPass(createVerifyShardings());
}

} // namespace llmc
