// RUN: split-file %s %t
// RUN: llmc-opt %t/schedule.mlir --verify-diagnostics --llmc-build-table="schedule=dualpipe micro-batches=2"
// RUN: llmc-opt %t/count.mlir --verify-diagnostics --llmc-build-table="micro-batches=0"
// RUN: llmc-opt %t/missing.mlir --verify-diagnostics --llmc-build-table="micro-batches=2"
// RUN: llmc-opt %t/forward.mlir --verify-diagnostics --llmc-build-table="micro-batches=2"
// RUN: llmc-opt %t/chunks.mlir --verify-diagnostics --llmc-build-table="micro-batches=2"
// RUN: llmc-opt %t/other-chunks.mlir --verify-diagnostics --llmc-build-table="schedule=interleaved micro-batches=2"
// RUN: llmc-opt %t/groups.mlir --verify-diagnostics --llmc-build-table="schedule=interleaved micro-batches=3"
// RUN: llmc-opt %t/weight.mlir --verify-diagnostics --llmc-build-table="schedule=zero-bubble micro-batches=2"

//--- schedule.mlir
// expected-error @+1 {{unknown schedule 'dualpipe'; known are gpipe, 1f1b, interleaved and zero-bubble}}
module {}

//--- count.mlir
// expected-error @+1 {{a step needs at least one micro-batch, got 0}}
module {}

//--- missing.mlir
// Misses the procedure of an entry.
// expected-error @+1 {{has no procedure @begin, which a step runs}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @update update {}
}

//--- forward.mlir
// expected-error @+1 {{has no procedure for the forward of micro-batch 0, chunk 0}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @backward backward {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}

//--- chunks.mlir
// Refuses chunks that a schedule does not run.
// expected-error @+1 {{has 2 chunks of layers; 1f1b runs one a stage}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
}

//--- other-chunks.mlir
// Refuses stages with other numbers of chunks.
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
}
// expected-error @+1 {{has 1 chunks of layers, the first stage has 2}}
plan.stage @last attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>], pools = [#plan.pool<0, 1>], table = []} {
}

//--- groups.mlir
// Refuses micro-batches that do not fill their last group.
// expected-error @+1 {{interleaved runs micro-batches in groups of 2, got 3 of them}}
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
}
plan.stage @last attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>, #plan.chunk<3, 3>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
}

//--- weight.mlir
// Misses the weight gradients of a backward that is not split.
// expected-error @+1 {{has no procedure for the weight gradients of micro-batch 0, chunk 0}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
