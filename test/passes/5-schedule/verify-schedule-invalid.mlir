// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-verify-schedule

// V1: everything became instructions.
// expected-error @+1 {{function of graph ops is left after scheduling}}
func.func @forward_0() {
  return
}

// -----

// V2: every buffer has its bytes.
// expected-error @+1 {{has no arena_bytes}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>],
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@update, 0, 0>]} {
  // expected-error @+1 {{has no offset}}
  %0 = plan.buffer persistent : !plan.buffer<16xf32>
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}

// -----

// V3: a collective says what it is for.
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@update, 0, 0>]} {
  %0 = plan.buffer persistent {offset = 0 : i64} : !plan.buffer<16xf32>
  plan.procedure @forward forward {}
  plan.procedure @backward backward {
    // expected-error @+1 {{collective has no origin}}
    plan.collective all_reduce <sum> %0 into %0 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
  plan.procedure @update update {}
}

// -----

// V4: a table runs backward after forward.
// expected-error @+1 {{table runs the backward of micro-batch 1 before its forward}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 1, 0>, #plan.entry<@update, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}

// -----

// V4: each micro-batch once.
// expected-error @+1 {{table runs micro-batch 1 1 times forward and 0 times backward, expected once each}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 1, 0>, #plan.entry<@update, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}

// -----

// V4: the update is there, and ends the step.
// expected-error @+1 {{table does not end with an update}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
}

// -----

// expected-error @+1 {{table goes on after the update}}
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@forward, 0, 0>, #plan.entry<@update, 0, 0>, #plan.entry<@backward, 0, 0>]} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @update update {}
}
