// RUN: llmc-opt %s --split-input-file --llmc-order-tokens=ranks=2 | FileCheck %s
// RUN: llmc-opt %s --split-input-file "--llmc-order-tokens=ranks=2 zigzag=false" | FileCheck %s --check-prefix=KEPT

// Blocks 0, 3, 1, 2 of a row of 8 go to two ranks. What depends on places alone follows: the angles of a
// rotary are made of positions, and rows of a table are looked up by them; what differs between tokens
// in no way stays.
// In the order of the row, the table alone is looked up.
// KEPT-LABEL: func.func @forward
// KEPT-NOT: graph.loader
// KEPT: %[[AT:.*]] = graph.iota {dim = 0 : i64} : () -> tensor<8xi64>
// KEPT: %[[PLACES:.*]] = graph.gather %arg2, %[[AT]] : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
// KEPT: graph.add %{{.*}}, %[[PLACES]]
// KEPT: graph.rotary %{{.*}}, %[[FLOAT:.*]], %[[FLOAT]]
// KEPT-NOT: graph.gather
// CHECK-LABEL: func.func @forward
// CHECK-SAME: graph.input = "ids", graph.loader = #graph.loader<permuted_dim = 1, block_order = [0, 3, 1, 2]>
func.func @forward(%ids: tensor<2x8xi64> {graph.input = "ids"}, %t: tensor<16x4xf32>, %places: tensor<8x4xf32>) -> tensor<4xf32> {
  // CHECK: %[[START:.*]] = graph.constant dense<{{\[\[}}0], [6], [2], [4]]> : tensor<4x1xi64>
  // CHECK: %[[WITHIN:.*]] = graph.iota {dim = 1 : i64} : () -> tensor<4x2xi64>
  // CHECK: %[[WIDE:.*]] = graph.broadcast %[[START]]
  // CHECK: %[[SUM:.*]] = graph.add %[[WIDE]], %[[WITHIN]]
  // CHECK: %[[AT:.*]] = graph.reshape %[[SUM]] : (tensor<4x2xi64>) -> tensor<8xi64>
  // CHECK: %[[PLACES:.*]] = graph.gather %arg2, %[[AT]] : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %x = graph.gather %t, %ids : (tensor<16x4xf32>, tensor<2x8xi64>) -> tensor<2x8x4xf32>
  // CHECK: graph.add %{{.*}}, %[[PLACES]]
  %e = graph.add %x, %places : (tensor<2x8x4xf32>, tensor<8x4xf32>) -> tensor<2x8x4xf32>
  %h = graph.reshape %e : (tensor<2x8x4xf32>) -> tensor<2x8x1x4xf32>
  // CHECK: %[[ANGLES:.*]] = graph.reshape %[[AT]] : (tensor<8xi64>) -> tensor<1x8x1xi64>
  // CHECK: %[[FLOAT:.*]] = graph.cast %[[ANGLES]]
  %i = graph.iota {dim = 1} : () -> tensor<1x8x1xi64>
  %f = graph.cast %i : (tensor<1x8x1xi64>) -> tensor<1x8x1xf32>
  // CHECK: graph.rotary %{{.*}}, %[[FLOAT]], %[[FLOAT]]
  %q = graph.rotary %h, %f, %f : (tensor<2x8x1x4xf32>, tensor<1x8x1xf32>, tensor<1x8x1xf32>) -> tensor<2x8x1x4xf32>
  // CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[AT]], %[[AT]] {causal = true
  %o, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64, causal = true}
      : (tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>, tensor<2x8x1x4xf32>) -> (tensor<2x8x1x4xf32>, tensor<2x8x1xf32>)
  %s = graph.reduce %o {dims = array<i64: 0, 1, 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x8x1x4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

// Without a causal attention all orders are equal.
// KEPT-LABEL: func.func @forward
// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.loader
func.func @forward(%ids: tensor<2x8xi64> {graph.input = "ids"}, %t: tensor<16x4xf32>) -> tensor<4xf32> {
  %x = graph.gather %t, %ids : (tensor<16x4xf32>, tensor<2x8xi64>) -> tensor<2x8x4xf32>
  %s = graph.reduce %x {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum>} : (tensor<2x8x4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}
