// RUN: llmc-opt %s --llmc-build-table="schedule=1f1b micro-batches=4" | FileCheck %s --check-prefix=ONE
// RUN: llmc-opt %s --llmc-build-table="schedule=gpipe micro-batches=4" | FileCheck %s --check-prefix=ALL
// RUN: llmc-opt %s --llmc-build-table="schedule=1f1b micro-batches=1" | FileCheck %s --check-prefix=FEW

// Three stages, four micro-batches. 1F1B: stage s runs 2 - s forwards ahead and then
// alternates; what it keeps fits 3 - s slots. GPipe: all forwards, then all backwards,
// a slot each. The backward of the last micro-batch is backward_last; with a
// single micro-batch @backward has no entry and is dropped.

// ONE-LABEL: plan.stage @first attributes
// ONE-SAME: pools = [#plan.pool<0, 3>]
// ONE-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@forward, 2, 2>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 3, 0>, #plan.entry<@backward, 1, 1>, #plan.entry<@backward, 2, 2>, #plan.entry<@backward_last, 3, 0>, #plan.entry<@update, 0, 0>]
// ONE-LABEL: plan.stage @middle attributes
// ONE-SAME: pools = [#plan.pool<0, 2>]
// ONE-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 2, 0>, #plan.entry<@backward, 1, 1>, #plan.entry<@forward, 3, 1>, #plan.entry<@backward, 2, 0>, #plan.entry<@backward_last, 3, 1>, #plan.entry<@update, 0, 0>]
// ONE-LABEL: plan.stage @last attributes
// ONE-SAME: pools = [#plan.pool<0, 1>]
// ONE-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 1, 0>, #plan.entry<@backward, 1, 0>, #plan.entry<@forward, 2, 0>, #plan.entry<@backward, 2, 0>, #plan.entry<@forward, 3, 0>, #plan.entry<@backward_last, 3, 0>, #plan.entry<@update, 0, 0>]

// ALL-COUNT-3: pools = [#plan.pool<0, 4>], {{.*}}[#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@forward, 2, 2>, #plan.entry<@forward, 3, 3>, #plan.entry<@backward, 0, 0>, #plan.entry<@backward, 1, 1>, #plan.entry<@backward, 2, 2>, #plan.entry<@backward_last, 3, 3>, #plan.entry<@update, 0, 0>]

// FEW-COUNT-3: pools = [#plan.pool<0, 1>], {{.*}}[#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward_last, 0, 0>, #plan.entry<@update, 0, 0>]
// FEW-NOT: plan.procedure @backward backward
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @middle attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @last attributes {stage = 2 : i64, chunks = [#plan.chunk<2, 2>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @backward_last backward_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
