// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-bucket-reductions

// The pass moves what it finds and has no errors of its own; a sum over no axis is none.
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  %0 = plan.buffer persistent : !plan.buffer<16xf32>
  plan.procedure @backward backward {}
  plan.procedure @update update {
    // expected-error @+1 {{C1: a collective needs at least one axis}}
    plan.collective all_reduce <sum> %0 into %0 over [] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
}

// -----

// A stage without an update has nothing to move, and stays as it is.
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @backward backward {}
}
