// RUN: split-file %s %t
// RUN: llmc-opt %t/two.mlir --llmc-build-table="schedule=zero-bubble micro-batches=3" | FileCheck %t/two.mlir
// RUN: llmc-opt %t/three.mlir --llmc-build-table="schedule=zero-bubble micro-batches=4" | FileCheck %t/three.mlir
// RUN: llmc-opt %t/three.mlir --llmc-build-table="schedule=zero-bubble micro-batches=1" | FileCheck %t/three.mlir --check-prefix=FEW

//--- two.mlir
// Runs weight gradients one micro-batch behind the backward on the second of two stages, on the first
// right behind it. A slot is free behind the weight gradients; only these have a procedure for the last
// micro-batch, and no stage has more slots than there are stages.
// CHECK-LABEL: plan.stage @first attributes
// CHECK-SAME: pools = [#plan.pool<0, 2>]
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@backward, 0, 0>, #plan.entry<@weight, 0, 0>, #plan.entry<@forward, 2, 0>,
// CHECK-SAME: #plan.entry<@backward, 1, 1>, #plan.entry<@weight, 1, 1>, #plan.entry<@backward, 2, 0>, #plan.entry<@weight_last, 2, 0>, #plan.entry<@update, 0, 0>]
// CHECK-LABEL: plan.stage @last attributes
// CHECK-SAME: pools = [#plan.pool<0, 2>]
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@backward, 1, 1>, #plan.entry<@weight, 0, 0>,
// CHECK-SAME: #plan.entry<@forward, 2, 0>, #plan.entry<@backward, 2, 0>, #plan.entry<@weight, 1, 1>, #plan.entry<@weight_last, 2, 0>, #plan.entry<@update, 0, 0>]
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @weight weight {}
  plan.procedure @weight_last weight_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @last attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @weight weight {}
  plan.procedure @weight_last weight_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}

//--- three.mlir
// Runs weight gradients two micro-batches behind on the third stage, and those that are left at the end. With
// a single micro-batch nothing is left to run them behind, and @weight has no entry and is dropped.
// CHECK-LABEL: plan.stage @first attributes
// CHECK-SAME: pools = [#plan.pool<0, 3>]
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@forward, 2, 2>, #plan.entry<@backward, 0, 0>, #plan.entry<@weight, 0, 0>,
// CHECK-SAME: #plan.entry<@forward, 3, 0>, #plan.entry<@backward, 1, 1>, #plan.entry<@weight, 1, 1>, #plan.entry<@backward, 2, 2>, #plan.entry<@weight, 2, 2>, #plan.entry<@backward, 3, 0>,
// CHECK-SAME: #plan.entry<@weight_last, 3, 0>, #plan.entry<@update, 0, 0>]
// CHECK-LABEL: plan.stage @middle attributes
// CHECK-SAME: pools = [#plan.pool<0, 3>]
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 2, 2>, #plan.entry<@backward, 1, 1>,
// CHECK-SAME: #plan.entry<@weight, 0, 0>, #plan.entry<@forward, 3, 0>, #plan.entry<@backward, 2, 2>, #plan.entry<@weight, 1, 1>, #plan.entry<@backward, 3, 0>, #plan.entry<@weight, 2, 2>,
// CHECK-SAME: #plan.entry<@weight_last, 3, 0>, #plan.entry<@update, 0, 0>]
// CHECK-LABEL: plan.stage @last attributes
// CHECK-SAME: pools = [#plan.pool<0, 3>]
// CHECK-SAME: [#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@forward, 1, 1>, #plan.entry<@backward, 1, 1>, #plan.entry<@forward, 2, 2>,
// CHECK-SAME: #plan.entry<@backward, 2, 2>, #plan.entry<@weight, 0, 0>, #plan.entry<@forward, 3, 0>, #plan.entry<@backward, 3, 0>, #plan.entry<@weight, 1, 1>, #plan.entry<@weight, 2, 2>,
// CHECK-SAME: #plan.entry<@weight_last, 3, 0>, #plan.entry<@update, 0, 0>]
// FEW-COUNT-3: pools = [#plan.pool<0, 1>], {{.*}}[#plan.entry<@begin, 0, 0>, #plan.entry<@forward, 0, 0>, #plan.entry<@backward, 0, 0>, #plan.entry<@weight_last, 0, 0>, #plan.entry<@update, 0, 0>]
// FEW-NOT: plan.procedure @weight weight
plan.stage @first attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @weight weight {}
  plan.procedure @weight_last weight_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @middle attributes {stage = 1 : i64, chunks = [#plan.chunk<1, 1>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @weight weight {}
  plan.procedure @weight_last weight_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
plan.stage @last attributes {stage = 2 : i64, chunks = [#plan.chunk<2, 2>], pools = [#plan.pool<0, 1>], table = []} {
  plan.procedure @forward forward {}
  plan.procedure @backward backward {}
  plan.procedure @weight weight {}
  plan.procedure @weight_last weight_last {}
  plan.procedure @update update {}
  plan.procedure @begin begin {}
}
