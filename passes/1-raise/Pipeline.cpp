#include "passes/1-raise/Pipeline.h"

#include "mlir/Pass/PassRegistry.h"
#include "passes/1-raise/Passes.h"

using namespace mlir;
using namespace llmc;

void llmc::buildRaisePipeline(OpPassManager &pm, const RaiseOptions &options) {
  OpPassManager &forward = pm.nest<func::FuncOp>();

  // @forward is one exporter's graph, op by op. What it computes from constants
  // (masks, positions, scales) is what the recognisers below read by value, so
  // it must be numbers before anything looks at it.
  forward.addPass(createFoldConstants());

  // Positions are a gather at constant ids. As a slice they need no gather and their gradient no
  // scatter; the repeated rows go before shapes are folded, so that no broadcast is carried through
  // them.
  forward.addPass(createRaisePositions());

  // Two exporters differ most in how they flatten, split and transpose around
  // the same matmul. Now no op only moves dims for a neighbour, and a pattern
  // below has one form instead of one per exporter.
  forward.addPass(createFoldShapes());

  if (options.recognize) {
    // Experts work on rows that an exporter repeats, sorts and flattens; where the tokens keep their
    // order, what lies between two products is the activation of any other block.
    forward.addPass(createRaiseExperts());

    // These passes recognise blocks that an exporter may write op by op. Blocks share no op, so
    // the order of the passes is free; each is simplest on arithmetic that is as it came.
    forward.addPass(createRaiseLayerNorm());
    forward.addPass(createRaiseRmsNorm());
    forward.addPass(createRaiseActivations());
    forward.addPass(createRaiseRotary());

    // Transposes of heads are now in the equations of the two products of an attention, and
    // masks are constants; the whole is one pattern.
    forward.addPass(createRaiseAttention());
  }

  // A fused projection is cut where the model cuts its result, or a cut of its
  // columns over ranks would not be a cut of heads. It leaves slices of parameters.
  forward.addPass(createSplitFusedWeights());

  // Every movement that is left beside a parameter is a way to read the file.
  // From here on a parameter is what the model multiplies with.
  pm.addPass(createFoldViews());

  // Same ops, same parameters, but still in the order and with the operands of
  // the file. Equal layers are found by comparing ops one by one, which needs
  // one order that the structure alone gives.
  pm.addPass(createNormalizeOrder());

  if (options.recognize) {
    // From here on the size of the module does not depend on the depth.
    pm.addPass(createFoldLayers());

    // Parameters are now in another order: the repeat uses those of all layers.
    pm.addPass(createNormalizeOrder());
    pm.addPass(createRecordBlocks());
  }

  // An element that two parameters own would be trained twice, silently.
  VerifyRaisedOptions verify;
  verify.remark = options.recognize;
  pm.addPass(createVerifyRaised(verify));
}

void llmc::registerRaise() {
  registerRaisePasses();
  PassPipelineRegistration<>("llmc-raise", "phase 1: to the canonical form of the model",
                             [](OpPassManager &pm) { buildRaisePipeline(pm); });
}
