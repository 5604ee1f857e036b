// Phase 5 as prose.
#include "passes/5-schedule/Pipeline.h"

#include "passes/5-schedule/Passes.h"

namespace llmc {

void buildSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options) {
  // Stages are separate functions on local types, layers still folded. What one
  // kernel can do is found once for all layers.
  pm.addPass(createFuseKernels());
  // Buffers of single layers are needed next, so layers are written out.
  pm.addPass(createUnrollLayers());
  // The last ops that are neither kernels nor messages; what they become must be
  // there when places are given out.
  pm.addPass(createLowerCollectives());
  // Values become places in buffers and ops become instructions. Nothing
  // before this point knows about memory, nothing after it about values.
  pm.addPass(createBuildProcedures());
  // Gradient reductions still stand in the update, one a parameter. They move
  // before the table is built, because the table then knows which backward is the last.
  pm.addPass(createBucketReductions());
  // Procedures are final; the table fixes how many slots live at once, which
  // the arena needs.
  BuildTableOptions table;
  table.schedule = options.schedule;
  table.microBatches = options.microBatches;
  pm.addPass(createBuildTable(table));
  // Known by the table alone: which gradients get one sum a step.
  pm.addPass(createWriteFirst());
  // Until here the order of a procedure said what comes after what. What may wait for other
  // ranks now gets a queue of its own, and events where others depend on it.
  pm.addPass(createStreamCollectives());
  // Last, since any later pass that adds a buffer would need it again.
  pm.addPass(createAssignArena());
  pm.addPass(createVerifySchedule());
}

} // namespace llmc
