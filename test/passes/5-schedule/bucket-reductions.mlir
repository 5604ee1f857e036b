// RUN: llmc-opt %s --llmc-bucket-reductions=bucket-bytes=1 | FileCheck %s --check-prefixes=CHECK,SMALL
// RUN: llmc-opt %s --llmc-bucket-reductions=bucket-bytes=100 | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: llmc-opt %s --llmc-bucket-reductions | FileCheck %s --check-prefixes=CHECK,ONE

// Gradients lie in one buffer, what the last backward finishes first in front: the head, then
// the layers. Layers finish from the last to the first.
// CHECK: %[[ALL:[0-9]+]] = plan.buffer persistent : !plan.buffer<64xf32>
// CHECK: %[[X:[0-9]+]] = plan.buffer slot
// CHECK: %[[W:[0-9]+]] = plan.buffer persistent of %[[ALL]] : !plan.buffer<64xf32> at 64 {binding = {{.*}}@w.grad
// CHECK: %[[W2:[0-9]+]] = plan.buffer persistent of %[[W]] : {{.*}} at 128
// CHECK: %[[W0:[0-9]+]] = plan.buffer persistent of %[[W]] : {{.*}} at 0
// CHECK: %[[HEAD:[0-9]+]] = plan.buffer persistent of %[[ALL]] : !plan.buffer<64xf32> at 0 {binding = {{.*}}@head.grad
// CHECK: %[[TOKENS:[0-9]+]] = plan.buffer persistent {binding = {{.*}}@tokens

// Buckets of any size: one a layer, each started when its last write is done.
// SMALL: %[[B0:[0-9]+]] = plan.buffer persistent of %[[ALL]] : {{.*}} at 0 : !plan.buffer<16xf32>
// SMALL: %[[B1:[0-9]+]] = plan.buffer persistent of %[[ALL]] : {{.*}} at 192 : !plan.buffer<16xf32>
// SMALL: %[[B2:[0-9]+]] = plan.buffer persistent of %[[ALL]] : {{.*}} at 128 : !plan.buffer<16xf32>
// SMALL: %[[B3:[0-9]+]] = plan.buffer persistent of %[[ALL]] : {{.*}} at 64 : !plan.buffer<16xf32>
// A bucket ends with the first layer that makes it large enough.
// TWO: %[[B0:[0-9]+]] = plan.buffer persistent of %[[ALL]] : {{.*}} at {{0|128}} : !plan.buffer<32xf32>
// TWO: %[[B1:[0-9]+]] = plan.buffer persistent of %[[ALL]] : {{.*}} at {{0|128}} : !plan.buffer<32xf32>
// ONE: %[[B0:[0-9]+]] = plan.buffer persistent of %[[ALL]] : {{.*}} at 0 : !plan.buffer<64xf32>

// Only the backward of the last micro-batch starts sums.
// CHECK: plan.procedure @backward backward
// CHECK-NOT: plan.record
// CHECK: plan.procedure @backward_last backward_last
// SMALL-NEXT: plan.copy %[[X]] into %[[HEAD]]
// SMALL-NEXT: plan.record 0 step {{.*}}stream = 0
// SMALL-NEXT: plan.copy %[[X]] into %[[W2]]
// SMALL-NEXT: plan.record 1 step
// SMALL: plan.copy %[[X]] into %[[W0]]
// SMALL-NEXT: plan.copy %[[X]] into %[[W0]]
// SMALL: plan.wait 0 step {{.*}}stream = 2
// SMALL: plan.collective all_reduce <sum> %[[B0]] into %[[B0]] over ["dp"] {{.*}}stream = 2
// SMALL-NEXT: plan.wait 1 step
// SMALL-NEXT: plan.collective all_reduce <sum> %[[B1]]
// SMALL: plan.collective all_reduce <sum> %[[B2]]
// SMALL: plan.collective all_reduce <sum> %[[B3]]
// TWO-COUNT-2: plan.collective all_reduce
// ONE-COUNT-5: plan.copy
// ONE-NEXT: plan.record 0 step {{.*}}stream = 0
// ONE-NEXT: plan.wait 0 step {{.*}}stream = 2
// ONE-NEXT: plan.collective all_reduce <sum> %[[B0]] into %[[B0]] over ["dp"] {origin = #plan.origin<"gradients" {{.*}}tactic "data"
// CHECK-NOT: plan.collective

// The update waits for all of them. The token count belongs to no parameter and
// stays, as does a sum that is not in place.
// CHECK: plan.record [[DONE:[0-9]+]] step {{.*}}stream = 2
// CHECK: plan.procedure @update update
// CHECK-NEXT: plan.wait [[DONE]] step {{.*}}stream = 0
// CHECK-NEXT: plan.collective all_reduce <sum> %[[TOKENS]] into %[[TOKENS]]
// CHECK-NEXT: plan.collective all_reduce <sum> %[[HEAD]] into %[[X]]
// CHECK-NEXT: {{^ *}$}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @src : tensor<64xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<3x16xf32> parameter stacked views [#graph.view<@src, 0, [1]>, #graph.view<@src, 16, [1]>, #graph.view<@src, 32, [1]>]
  graph.state @w.grad : tensor<3x16xf32> accumulator stacked of @w
  graph.state @head : tensor<16xf32> parameter views [#graph.view<@src, 48, [1]>]
  graph.state @head.grad : tensor<16xf32> accumulator of @head
  graph.state @tokens : tensor<f32> accumulator
  plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 2>], pools = [#plan.pool<0, 1>], table = []} {
    %0 = plan.buffer slot : !plan.buffer<16xf32>
    %1 = plan.buffer persistent {binding = #plan.state<@w.grad, accumulator, layers = [0, 3], dims = [[]], valid_shape = [16]>} : !plan.buffer<3x16xf32>
    %2 = plan.buffer persistent of %1 : !plan.buffer<3x16xf32> at 128 : !plan.buffer<16xf32>
    %3 = plan.buffer persistent of %1 : !plan.buffer<3x16xf32> at 64 : !plan.buffer<16xf32>
    %4 = plan.buffer persistent of %1 : !plan.buffer<3x16xf32> at 0 : !plan.buffer<16xf32>
    %5 = plan.buffer persistent {binding = #plan.state<@head.grad, accumulator, dims = [[]], valid_shape = [16]>} : !plan.buffer<16xf32>
    %6 = plan.buffer persistent {binding = #plan.state<@tokens, accumulator, dims = [], valid_shape = []>} : !plan.buffer<f32>
    plan.procedure @backward backward {
      plan.copy %0 into %5 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.copy %0 into %2 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.copy %0 into %3 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.copy %0 into %4 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.copy %0 into %4 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    }
    plan.procedure @update update {
      plan.collective all_reduce <sum> %1 into %1 over ["dp"] {stream = 0 : i64} : !plan.buffer<3x16xf32>, !plan.buffer<3x16xf32>
      plan.collective all_reduce <sum> %5 into %5 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.collective all_reduce <sum> %6 into %6 over ["dp"] {stream = 0 : i64} : !plan.buffer<f32>, !plan.buffer<f32>
      plan.collective all_reduce <sum> %5 into %0 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    }
  }
}
