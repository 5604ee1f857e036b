// Phase 3 as prose.
#include "passes/3-shard/Pipeline.h"

#include "passes/3-shard/Passes.h"

namespace llmc {

void buildShardPipeline(mlir::OpPassManager &pm) {
  // The program is one global view, and the mesh is only a wish. Where it has more
  // ranks than kv heads, heads are repeated while nothing is annotated.
  pm.addPass(createRepeatKvHeads());
  // Of the tactics, stages come first: they decide who computes, the others how
  // it is cut there.
  pm.addPass(createAssignStages());
  // Names of axes are products of atomic axes, and two may share some: experts take
  // axes of the data group, a sequence that is cut in norms those of tensors. An op
  // uses an axis once, so tactics seed in the order in which the more special cut wins:
  // stages, expert, context, data, tensor, sequence, state.
  // Rows before features: what the data axes leave whole is all that the
  // tensor axes may cut, and no later tactic may undo it.
  pm.addPass(createShardData());
  pm.addPass(createShardTensor());
  // All that may cut has cut: it is what the file asks for, or the person is asked.
  pm.addPass(createCheckAnnotations());
  // From here on annotations are facts that partitioning relies on.
  pm.addPass(createVerifyShardings());
}

} // namespace llmc
