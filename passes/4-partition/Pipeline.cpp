#include "passes/4-partition/Pipeline.h"

#include "passes/4-partition/Passes.h"

using namespace llmc;

void llmc::buildPartitionPipeline(mlir::OpPassManager &pm) {
  // Tensors are global and annotated. A cut that does not divide its dimension
  // has no local type, so sizes grow first; masks go in while every reduction
  // over a padded dimension is still one op.
  pm.addPass(createPadDims());

  // Sizes are final, and the annotations still say who wanted what. Written down now:
  // from here on ops change places, types and numbers.
  pm.addPass(createDescribeOps());

  // Definitions and uses may still disagree. From here on the difference is an
  // op, which the next passes can see, move and price.
  pm.addPass(createInsertReshards());

  // A reduction stands right behind each partial sum. Sums are linear, so
  // fewer of them are needed further on; gradients wait for the end of the
  // step. Before the split, because a border or a residual pins a reduction.
  pm.addPass(createSinkReductions());

  // One program still covers all stages. Splitting works on global types, so
  // that layers, borders and states are counted in the model's own sizes.
  pm.addPass(createSplitStages());

  // Every function now belongs to one stage, and what a rank holds of each
  // value is decided: types become local, reshards become collectives.
  pm.addPass(createLocalize());

  // The schedule trusts borders, residuals and holders blindly.
  pm.addPass(createVerifyPartition());
}
