#include "passes/4-partition/Pipeline.h"

#include "passes/4-partition/Passes.h"

using namespace llmc;

void llmc::buildPartitionPipeline(mlir::OpPassManager &pm, const std::string &reduction, bool run) {
  // Tensors are global and annotated. A cut that does not divide its dimension
  // has no local type, so sizes grow first; masks go in while every reduction
  // over a padded dimension is still one op.
  pm.addPass(createPadDims());

  // Sizes are final, and the annotations still record which tactic asked for what. The reports are
  // written now: from here on ops change positions, types and numbers.
  if (run)
    pm.addPass(createDescribeOps());

  // Definitions and uses may still disagree. From here on the difference is an
  // op, which the next passes can see, move and price.
  pm.addPass(createInsertReshards());

  // A reduction follows each partial sum directly. Sums are linear, so fewer reductions are needed
  // further on; gradients wait for the end of the step. This precedes the split, because a stage
  // boundary or a residual pins a reduction.
  pm.addPass(createSinkReductions());

  // One program still covers all stages. Splitting works on global types, so that layers, stage
  // boundaries and states are counted in the model's own sizes.
  pm.addPass(createSplitStages());

  // Every function now belongs to one stage, and what a rank holds of each
  // value is decided: types become local, reshards become collectives.
  pm.addPass(createLocalize());

  // Each rank's part of every state is final, so states that ranks of a data group hold alike can be
  // shared out: bytes count here, not dimensions.
  pm.addPass(createFlattenStates());

  // Every sum of gradients over data ranks is an op by now, and none is made or moved later, so it can
  // take the type in which they travel.
  CastReductionsOptions cast;
  cast.element = reduction;
  pm.addPass(createCastReductions(cast));

  // Layers are still folded, and each rank's rows and keys are known: what attention costs which rank
  // can be counted.
  pm.addPass(createCountAttention());

  // The schedule relies on boundary values, residuals and holders without checking them.
  if (run)
    pm.addPass(createVerifyPartition());
}
