// Lists the passes of phase 5 in order, with the reason for each place in it.
#include "passes/5-schedule/Pipeline.h"

#include "passes/5-schedule/Passes.h"

namespace llmc {

void buildKernelPipeline(mlir::OpPassManager &pm, const ScheduleOptions &options) {
  // Forward and backward of a stage are a pair of functions whose layers are still folded: what the
  // one keeps for the other is decided once for all layers, before kernels hide what ops compute.
  // What the forward has exchanged takes as much as what it was made of, and is kept in its place
  // before anything decides what to compute again.
  pm.addPass(createKeepExchanged());
  RecomputeOptions recompute;
  recompute.mode = options.recompute;
  recompute.budgets.assign(options.budgets.begin(), options.budgets.end());
  pm.addPass(createRecompute(recompute));
  // Backward has all that it computes again by now, and layers are still folded: B and W are cut apart
  // once for all layers.
  if (options.schedule == "zero-bubble")
    pm.addPass(createSplitBackward());
  // Stages are separate functions on local types, and layers are still folded, so kernels are found
  // once for all layers.
  FuseKernelsOptions fuse;
  fuse.fuse = options.fuse;
  pm.addPass(createFuseKernels(fuse));
}

void buildSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options) {
  buildKernelPipeline(pm, options);
  // Buffers of single layers are needed next, so layers are written out.
  pm.addPass(createUnrollLayers());
  // These are the last ops that are neither kernels nor messages; what they become must be there
  // when memory is assigned.
  pm.addPass(createLowerCollectives());
  // Values become bytes of buffers, and ops become instructions. No pass before this one knows
  // about memory, none after it about values.
  pm.addPass(createBuildProcedures());
  // Procedures say by now which of them touch a buffer. Copies of procedures and the table follow the
  // pools.
  if (options.schedule == "zero-bubble")
    pm.addPass(createAssignPools());
  // Collectives still stand where their results are needed. Those of shared-out states are moved
  // while all instructions of a procedure are in one stream, whose order is easy to change.
  OverlapShardsOptions overlap;
  overlap.ahead = options.gatherAhead;
  pm.addPass(createOverlapShards(overlap));
  // Gathers of weights have their places by now, which exchanges of experts must not delay.
  pm.addPass(createOverlapExchanges());
  // Gradient reductions are still in the update, one per parameter. They move before the table is
  // built, because the table then knows which backward is the last; and after instructions have their
  // order, since the events that start them are borders over which nothing moves.
  pm.addPass(createBucketReductions());
  // Procedures are final; the table fixes how many slots live at once, which
  // the arena needs.
  BuildTableOptions table;
  table.schedule = options.schedule;
  table.microBatches = options.microBatches;
  pm.addPass(createBuildTable(table));
  // The table alone shows which gradients get a single sum per step.
  pm.addPass(createWriteFirst());
  // So far the order of a procedure was the order of its effects. What may wait for other ranks now
  // gets a stream of its own, and events where other instructions depend on it.
  pm.addPass(createStreamCollectives());
  // This is last but for the check: any later pass that adds a buffer would need it again.
  pm.addPass(createAssignArena());
  pm.addPass(createVerifySchedule());
}

} // namespace llmc
