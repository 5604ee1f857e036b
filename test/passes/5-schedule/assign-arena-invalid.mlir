// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-assign-arena

// The pass places whatever a stage may hold; a view that leaves its parent is nothing that
// it could place.
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer scratch : !plan.buffer<16xf32>
  // expected-error @+1 {{C1: view of bytes [48, 80) leaves its parent of 64}}
  %1 = plan.buffer scratch of %0 : !plan.buffer<16xf32> at 48 : !plan.buffer<8xf32>
  plan.procedure @forward forward {
    plan.fill %1 {stream = 0 : i64} : !plan.buffer<8xf32>
  }
}

// -----

// Without a slot there is no place for what a micro-batch keeps.
// expected-error @+1 {{C2: needs at least one slot, got 0}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 0>], table = []} {
  %0 = plan.buffer slot : !plan.buffer<16xf32>
  plan.procedure @forward forward {
    plan.fill %0 {stream = 0 : i64} : !plan.buffer<16xf32>
  }
}
