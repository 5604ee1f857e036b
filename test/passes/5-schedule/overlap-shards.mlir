// RUN: llmc-opt %s --llmc-overlap-shards | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: llmc-opt %s --llmc-overlap-shards=ahead=2 | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: llmc-opt %s --llmc-overlap-shards=ahead=0 | FileCheck %s --check-prefixes=CHECK,NONE

// Each layer's weights are gathered while the layer before it computes, with `ahead` 2 while the
// one before that does. Gathers that stand together stay together.
// CHECK: plan.procedure @forward
// ONE-NEXT: plan.collective all_gather <sum> %[[P0:[0-9a-z]+]] into %[[W0:[0-9a-z]+]]
// ONE-NEXT: plan.collective all_gather <sum> %[[B0:[0-9a-z]+]] into
// ONE-NEXT: plan.collective all_gather <sum> %{{[0-9a-z]+}} into %[[W1:[0-9a-z]+]]
// ONE-NEXT: plan.copy %[[W0]] into
// ONE-NEXT: plan.collective all_gather <sum> %{{[0-9a-z]+}} into %[[W2:[0-9a-z]+]]
// ONE-NEXT: plan.copy %[[W1]] into
// ONE-NEXT: plan.copy %[[W2]] into
// TWO-COUNT-4: plan.collective all_gather
// TWO-NEXT: plan.copy
// TWO-NEXT: plan.copy
// TWO-NEXT: plan.copy
// NONE-NEXT: plan.collective
// NONE-NEXT: plan.collective
// NONE-NEXT: plan.copy
// NONE-NEXT: plan.collective
// NONE-NEXT: plan.copy
// NONE-NEXT: plan.collective
// NONE-NEXT: plan.copy

// The sum of the last layer's gradients is added before that of the layer before it is scattered.
// CHECK: plan.procedure @backward
// CHECK-NEXT: plan.collective reduce_scatter
// NONE-NEXT: plan.launch
// CHECK: plan.fill
// ONE-NEXT: plan.launch
// CHECK: plan.collective reduce_scatter
// CHECK-NEXT: plan.launch

// The backward of the last micro-batch has the same scratch. What writes the padding of the second of two buckets does
// not part them.
// CHECK: plan.procedure @backward_last
// ONE-NEXT: plan.collective reduce_scatter
// ONE-NEXT: plan.launch reads() writes
// ONE: plan.collective reduce_scatter
// ONE-NEXT: plan.fill
// ONE-NEXT: plan.launch reads(%
// ONE: plan.launch reads(%
// ONE: plan.collective reduce_scatter
// NONE-NEXT: plan.collective reduce_scatter
// NONE-NEXT: plan.launch reads(%
// NONE: plan.launch reads() writes
// NONE: plan.collective reduce_scatter
// NONE-NEXT: plan.launch reads(%
// CHECK: plan.launch
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  plan.stage @s attributes {stage = 0 : i64, chunks = [#plan.chunk<0, 2>], pools = [#plan.pool<0, 1>], table = []} {
    %p = plan.buffer persistent : !plan.buffer<16xf32>
    %acc = plan.buffer persistent : !plan.buffer<16xf32>
    %w0 = plan.buffer scratch : !plan.buffer<32xf32>
    %b0 = plan.buffer scratch : !plan.buffer<32xf32>
    %w1 = plan.buffer scratch : !plan.buffer<32xf32>
    %w2 = plan.buffer scratch : !plan.buffer<32xf32>
    %x = plan.buffer slot : !plan.buffer<32xf32>
    %g0 = plan.buffer scratch : !plan.buffer<32xf32>
    %g1 = plan.buffer scratch : !plan.buffer<32xf32>
    %r0 = plan.buffer scratch : !plan.buffer<16xf32>
    %r1 = plan.buffer scratch : !plan.buffer<16xf32>
    %acc2 = plan.buffer persistent : !plan.buffer<16xf32>
    %g2 = plan.buffer scratch : !plan.buffer<32xf32>
    %pad = plan.buffer scratch of %g2 : !plan.buffer<32xf32> at 120 : !plan.buffer<2xf32>
    %r2 = plan.buffer scratch : !plan.buffer<16xf32>
    plan.procedure @forward forward {
      plan.collective all_gather <sum> %p into %w0 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<32xf32>
      plan.collective all_gather <sum> %p into %b0 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<32xf32>
      plan.copy %w0 into %x {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<32xf32>
      plan.collective all_gather <sum> %p into %w1 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<32xf32>
      plan.copy %w1 into %x {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<32xf32>
      plan.collective all_gather <sum> %p into %w2 over ["dp"] {stream = 0 : i64} : !plan.buffer<16xf32>, !plan.buffer<32xf32>
      plan.copy %w2 into %x {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<32xf32>
    }
    plan.procedure @backward backward {
      plan.collective reduce_scatter <sum> %g0 into %r0 over ["dp"] {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<16xf32>
      plan.launch reads(%acc, %r0 : !plan.buffer<16xf32>, !plan.buffer<16xf32>) writes(%acc : !plan.buffer<16xf32>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
        %0 = graph.add %a, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
        plan.yield %0 : tensor<16xf32>
      }
      plan.fill %g1 {stream = 0 : i64} : !plan.buffer<32xf32>
      plan.collective reduce_scatter <sum> %g1 into %r1 over ["dp"] {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<16xf32>
      plan.launch reads(%acc, %r1 : !plan.buffer<16xf32>, !plan.buffer<16xf32>) writes(%acc : !plan.buffer<16xf32>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
        %0 = graph.add %a, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
        plan.yield %0 : tensor<16xf32>
      }
    }
    plan.procedure @backward_last backward_last {
      plan.collective reduce_scatter <sum> %g0 into %r0 over ["dp"] {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<16xf32>
      plan.launch reads(%acc, %r0 : !plan.buffer<16xf32>, !plan.buffer<16xf32>) writes(%acc : !plan.buffer<16xf32>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
        %0 = graph.add %a, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
        plan.yield %0 : tensor<16xf32>
      }
      plan.launch reads() writes(%pad : !plan.buffer<2xf32>) attributes {stream = 0 : i64} {
        %0 = graph.constant dense<0.0> : tensor<2xf32>
        plan.yield %0 : tensor<2xf32>
      }
      plan.collective reduce_scatter <sum> %g2 into %r2 over ["dp"] {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<16xf32>
      plan.launch reads(%acc2, %r2 : !plan.buffer<16xf32>, !plan.buffer<16xf32>) writes(%acc2 : !plan.buffer<16xf32>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
        %0 = graph.add %a, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
        plan.yield %0 : tensor<16xf32>
      }
      plan.fill %g1 {stream = 0 : i64} : !plan.buffer<32xf32>
      plan.collective reduce_scatter <sum> %g1 into %r1 over ["dp"] {stream = 0 : i64} : !plan.buffer<32xf32>, !plan.buffer<16xf32>
      plan.launch reads(%acc, %r1 : !plan.buffer<16xf32>, !plan.buffer<16xf32>) writes(%acc : !plan.buffer<16xf32>) attributes {stream = 0 : i64} {
      ^bb0(%a: tensor<16xf32>, %b: tensor<16xf32>):
        %0 = graph.add %a, %b : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
        plan.yield %0 : tensor<16xf32>
      }
    }
  }
}
