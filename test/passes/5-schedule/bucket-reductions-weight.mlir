// RUN: llmc-opt %s --llmc-bucket-reductions=bucket-bytes=1 | FileCheck %s

// Starts the reductions of gradients in the weight gradients of the last micro-batch, which end the gradients where
// backward is split; backward, which writes none, has no procedure for the last micro-batch. The update waits
// for the reductions.
// CHECK: plan.procedure @backward backward
// CHECK-NOT: plan.procedure @backward_last
// CHECK: plan.procedure @weight weight
// CHECK-NOT: plan.record
// CHECK: plan.procedure @weight_last weight_last
// CHECK-NEXT: plan.copy %{{.*}} into %[[HEAD:.*]] {
// CHECK-NEXT: plan.record [[HEAD_DONE:[0-9]+]] step {{.*}}stream = 0
// CHECK-NEXT: plan.copy %{{.*}} into %[[W:.*]] {
// CHECK-NEXT: plan.wait [[HEAD_DONE]] step {{.*}}stream = 2
// CHECK-NEXT: plan.record [[W_DONE:[0-9]+]] step {{.*}}stream = 0
// CHECK-NEXT: plan.collective all_reduce <sum> {{.*}}stream = 2
// CHECK-NEXT: plan.wait [[W_DONE]] step {{.*}}stream = 2
// CHECK-NEXT: plan.collective all_reduce <sum> {{.*}}stream = 2
// CHECK-NEXT: plan.record [[ALL:[0-9]+]] step {{.*}}stream = 2
// CHECK: plan.procedure @update update
// CHECK-NEXT: plan.wait [[ALL]] step {{.*}}stream = 0
// CHECK-NOT: plan.collective
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @src : tensor<32xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<16xf32> parameter views [#graph.view<@src, 0, [1]>]
  graph.state @w.grad : tensor<16xf32> accumulator of @w
  graph.state @head : tensor<16xf32> parameter views [#graph.view<@src, 16, [1]>]
  graph.state @head.grad : tensor<16xf32> accumulator of @head
  plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 0>], pools = [#plan.pool<0, 1>], table = []} {
    %0 = plan.buffer slot : !plan.buffer<16xf32>
    %1 = plan.buffer slot : !plan.buffer<16xf32>
    %2 = plan.buffer persistent {binding = #plan.state<@w.grad, accumulator, dims = [[]], valid_shape = [16]>} : !plan.buffer<16xf32>
    %3 = plan.buffer persistent {binding = #plan.state<@head.grad, accumulator, dims = [[]], valid_shape = [16]>} : !plan.buffer<16xf32>
    plan.procedure @backward backward {
      plan.copy %0 into %1 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    }
    plan.procedure @weight weight {
      plan.copy %1 into %3 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.copy %1 into %2 {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    }
    plan.procedure @update update {
      plan.collective all_reduce <sum> %2 into %2 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
      plan.collective all_reduce <sum> %3 into %3 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<16xf32>
    }
  }
}
