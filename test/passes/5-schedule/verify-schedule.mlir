// RUN: llmc-opt %s --llmc-verify-schedule | FileCheck %s

// Two micro-batches, one after the other: the pass changes nothing.
// CHECK: plan.stage @s attributes {arena_bytes = 64 : i64
// CHECK: plan.procedure @update
plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], arena_bytes = 64 : i64,
    table = [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 1, 0>,
             #plan.entry<@backward_last, 1, 0>, #plan.entry<@update, 0, 0>]} {
  %0 = plan.buffer persistent {offset = 0 : i64} : !plan.buffer<16xf32>
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {
    plan.collective all_reduce <sum> %0 into %0 over ["dp"] {stream = 0 : i64, origin = #plan.origin<"gradients" tactic "data" rule "sum of the replicas">} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
  }
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
