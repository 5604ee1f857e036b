// RUN: split-file %s %t
// RUN: llmc-opt %t/schedule.mlir --verify-diagnostics --llmc-build-table="schedule=interleaved micro-batches=2"
// RUN: llmc-opt %t/count.mlir --verify-diagnostics --llmc-build-table="micro-batches=0"
// RUN: llmc-opt %t/missing.mlir --verify-diagnostics --llmc-build-table="micro-batches=2"
// RUN: llmc-opt %t/forward.mlir --verify-diagnostics --llmc-build-table="micro-batches=2"
// RUN: llmc-opt %t/chunks.mlir --verify-diagnostics --llmc-build-table="micro-batches=2"

//--- schedule.mlir
// expected-error @+1 {{unknown schedule 'interleaved'; known are gpipe and 1f1b}}
module {}

//--- count.mlir
// expected-error @+1 {{a step needs at least one micro-batch, got 0}}
module {}

//--- missing.mlir
// A stage without the procedure of an entry.
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
// Both schedules run one chunk of layers a stage.
// expected-error @+1 {{has 2 chunks of layers; 1f1b runs one a stage}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>, #plan.chunk<2, 2>], pools = [#plan.pool<0, 1>, #plan.pool<1, 1>], table = []} {
}
