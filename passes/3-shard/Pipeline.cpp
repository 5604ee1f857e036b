// Phase 3 as prose.
#include "passes/3-shard/Pipeline.h"

#include "passes/3-shard/Passes.h"

namespace llmc {

void buildShardPipeline(mlir::OpPassManager &pm) {
  // The program is one global view without a mesh. Stages come first: they
  // decide who computes, the other tactics how it is cut there.
  pm.addPass(createAssignStages());
  // Rows before features: what the data axis leaves whole is all that the
  // tensor axis may cut, and no later tactic may undo it.
  pm.addPass(createShardData());
  pm.addPass(createShardTensor());
  // From here on annotations are facts that partitioning relies on.
  pm.addPass(createVerifyShardings());
}

} // namespace llmc
