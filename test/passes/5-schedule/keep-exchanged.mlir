// RUN: llmc-opt %s --llmc-keep-exchanged | FileCheck %s

// Attention of a context-parallel rank: the forward exchanges q from tokens to heads, and the result o
// back. Backward needs q by heads, and o both ways: both are kept as the forward has them.
// CHECK-LABEL: func.func @forward_0
// CHECK: %[[Q:.*]] = graph.exp
// CHECK: %[[QH:.*]] = parallel.all_to_all %[[Q]] over ["cp"] split 1 concat 0
// CHECK: %[[OH:.*]] = graph.tanh %[[QH]]
// CHECK: %[[O:.*]] = parallel.all_to_all %[[OH]] over ["cp"] split 0 concat 1
// CHECK: return %[[O]], %[[QH]], %[[OH]]
// CHECK-LABEL: func.func @backward_0
// CHECK-SAME: %[[KO:[a-z0-9]*]]: tensor<4x4xf32> {parallel.residual = 1 : i64}
// CHECK-SAME: %[[KQ:[a-z0-9]*]]: tensor<8x2xf32> {parallel.residual = 2 : i64}
// CHECK-SAME: %[[KOH:[a-z0-9]*]]: tensor<8x2xf32> {parallel.residual = 3 : i64}
// CHECK-NOT: all_to_all
// CHECK: graph.mul %[[KQ]], %[[KOH]]
// Another exchange is made as before.
// CHECK: parallel.all_to_all %[[KO]] over ["cp"] split 0 concat 1
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=2, "tp"=1]>} {
  func.func @forward_0(%x: tensor<4x4xf32> {graph.input = "x"})
      -> (tensor<4x4xf32> {parallel.residual = 0 : i64}, tensor<4x4xf32> {parallel.residual = 1 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %q = graph.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %qh = parallel.all_to_all %q over ["cp"] split 1 concat 0 : (tensor<4x4xf32>) -> tensor<8x2xf32>
    %oh = graph.tanh %qh : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %o = parallel.all_to_all %oh over ["cp"] split 0 concat 1 : (tensor<8x2xf32>) -> tensor<4x4xf32>
    return %q, %o : tensor<4x4xf32>, tensor<4x4xf32>
  }
  func.func @backward_0(%q: tensor<4x4xf32> {parallel.residual = 0 : i64}, %o: tensor<4x4xf32> {parallel.residual = 1 : i64})
      -> (tensor<8x2xf32>, tensor<2x8xf32>, tensor<4x4xf32>)
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %qh = parallel.all_to_all %q over ["cp"] split 1 concat 0 : (tensor<4x4xf32>) -> tensor<8x2xf32>
    %oh = parallel.all_to_all %o over ["cp"] split 1 concat 0 : (tensor<4x4xf32>) -> tensor<8x2xf32>
    %d = graph.mul %qh, %oh : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
    %t = parallel.all_to_all %o over ["cp"] split 0 concat 1 : (tensor<4x4xf32>) -> tensor<2x8xf32>
    %n = graph.neg %o : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %d, %t, %n : tensor<8x2xf32>, tensor<2x8xf32>, tensor<4x4xf32>
  }
}
