// RUN: llmc-opt %s --llmc-emit-kernels=targets=cuda --llmc-map-to-threads | FileCheck %s

// One thread adds up each column of few terms, the choices of a token; 32 threads share one of many.
// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: shared_bytes = 0 : i64
// CHECK: scf.for {{.*}} = %c0_i64 to %c2_i64 step %c1_i64 iter_args
// CHECK-NOT: gpu.barrier
// CHECK-LABEL: func.func @reduce_1(
// CHECK-SAME: shared_bytes = 8192 : i64
// CHECK: gpu.barrier
plan.stage @few attributes {stage = 0, chunks = [#plan.chunk<0, -1>], pools = [#plan.pool<0, 1>], table = []} {
  %a = plan.buffer scratch : !plan.buffer<4x16x2x512xf32>
  %m = plan.buffer scratch : !plan.buffer<4x16x512xf32>
  %c = plan.buffer scratch : !plan.buffer<4x16x64x512xf32>
  plan.procedure @forward forward {
    plan.launch reads(%a : !plan.buffer<4x16x2x512xf32>) writes(%m : !plan.buffer<4x16x512xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x16x2x512xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<4x16x2x512xf32>) -> tensor<4x16x512xf32>
      plan.yield %r : tensor<4x16x512xf32>
    }
    plan.launch reads(%c : !plan.buffer<4x16x64x512xf32>) writes(%m : !plan.buffer<4x16x512xf32>) attributes {stream = 0} {
    ^bb0(%x: tensor<4x16x64x512xf32>):
      %r = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<4x16x64x512xf32>) -> tensor<4x16x512xf32>
      plan.yield %r : tensor<4x16x512xf32>
    }
  }
}
