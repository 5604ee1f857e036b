// RUN: split-file %s %t
// RUN: llmc-opt %t/schedule.mlir --verify-diagnostics --llmc-build-table="schedule=interleaved micro-batches=2"
// RUN: llmc-opt %t/count.mlir --verify-diagnostics --llmc-build-table="micro-batches=0"
// RUN: llmc-opt %t/missing.mlir --verify-diagnostics --llmc-build-table="micro-batches=2"

//--- schedule.mlir
// expected-error @+1 {{unknown schedule 'interleaved'; known are gpipe and 1f1b}}
module {}

//--- count.mlir
// expected-error @+1 {{a step needs at least one micro-batch, got 0}}
module {}

//--- missing.mlir
// A stage without the procedure of an entry.
// expected-error @+1 {{C1: table row 0 names procedure @begin that the stage does not have}}
plan.stage @s attributes {stage = 0 : i64, slots = 1 : i64, first_layer = 0 : i64, last_layer = 0 : i64, table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @update update {}
}
