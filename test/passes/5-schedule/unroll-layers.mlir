// RUN: llmc-opt %s --llmc-unroll-layers | FileCheck %s

// Two layers: a stacked weight becomes slices, a stacked result the concatenation
// of what the layers yield.
// CHECK-LABEL: func.func @forward_0
// CHECK-SAME: (%[[X:[0-9a-z]+]]: tensor<4x8xf32>, %[[W:[0-9a-z]+]]: tensor<2x8x8xf32>)
// CHECK-NOT: graph.repeat
// CHECK: %[[S0:.*]] = graph.slice %[[W]] {limits = array<i64: 1, 8, 8>, starts = array<i64: 0, 0, 0>
// CHECK: %[[W0:.*]] = graph.reshape %[[S0]]
// CHECK: %[[H:[0-9a-z]+]] = graph.matmul "bd,de->be" %[[X]], %[[W0]]
// CHECK: %[[R0:.*]] = graph.reshape %[[X]]
// CHECK: %[[S1:.*]] = graph.slice %[[W]] {limits = array<i64: 2, 8, 8>, starts = array<i64: 1, 0, 0>
// CHECK: %[[W1:.*]] = graph.reshape %[[S1]]
// CHECK: %[[Y:[0-9a-z]+]] = graph.matmul "bd,de->be" %[[H]], %[[W1]]
// CHECK: %[[R1:.*]] = graph.reshape %[[H]]
// CHECK: %[[R:[0-9a-z]+]] = graph.concat %[[R0]], %[[R1]] {dim = 0 : i64}
// CHECK: return %[[Y]], %[[R]]
func.func @forward_0(%x: tensor<4x8xf32>, %w: tensor<2x8x8xf32>) -> (tensor<4x8xf32>, tensor<2x4x8xf32>) {
  %0, %1 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<4x8xf32> stacking tensor<2x4x8xf32> {
  ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
    %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    graph.yield %a, %h : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %0, %1 : tensor<4x8xf32>, tensor<2x4x8xf32>
}

// A backward pass runs from the last layer to the first; its stacked results still
// stand in the order of the layers. Captured values are the same in each.
// CHECK-LABEL: func.func @backward_0
// CHECK-SAME: (%[[D:[0-9a-z]+]]: tensor<4xf32>, %[[W:[0-9a-z]+]]: tensor<2x4xf32>, %[[C:[0-9a-z]+]]: tensor<4xf32>)
// CHECK: graph.slice %[[W]] {limits = array<i64: 2, 4>
// CHECK: %[[LAST:[0-9a-z]+]] = graph.mul %[[D]]
// CHECK: graph.add %[[LAST]], %[[C]]
// CHECK: %[[R1:.*]] = graph.reshape %[[LAST]]
// CHECK: graph.slice %[[W]] {limits = array<i64: 1, 4>
// CHECK: %[[FIRST:[0-9a-z]+]] = graph.mul
// CHECK: graph.add %[[FIRST]], %[[C]]
// CHECK: %[[R0:.*]] = graph.reshape %[[FIRST]]
// CHECK: graph.concat %[[R0]], %[[R1]]
func.func @backward_0(%d: tensor<4xf32>, %w: tensor<2x4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
  %0, %1 = graph.repeat 2 reverse carried(%d : tensor<4xf32>) stacked(%w : tensor<2x4xf32>) captured(%c : tensor<4xf32>) -> tensor<4xf32> stacking tensor<2x4xf32> {
  ^bb0(%h: tensor<4xf32>, %wi: tensor<4xf32>, %ci: tensor<4xf32>):
    %a = graph.mul %h, %wi : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = graph.add %a, %ci : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<2x4xf32>
}

// Repeats inside of repeats are written out too.
// CHECK-LABEL: func.func @nested
// CHECK-NOT: graph.repeat
// CHECK-COUNT-4: graph.mul
// CHECK-NOT: graph.mul
// CHECK: return
func.func @nested(%x: tensor<4xf32>, %w: tensor<2x2x4xf32>) -> tensor<4xf32> {
  %0 = graph.repeat 2 carried(%x : tensor<4xf32>) stacked(%w : tensor<2x2x4xf32>) captured() -> tensor<4xf32> {
  ^bb0(%h: tensor<4xf32>, %wi: tensor<2x4xf32>):
    %a = graph.repeat 2 carried(%h : tensor<4xf32>) stacked(%wi : tensor<2x4xf32>) captured() -> tensor<4xf32> {
    ^bb0(%g: tensor<4xf32>, %wj: tensor<4xf32>):
      %b = graph.mul %g, %wj : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      graph.yield %b : tensor<4xf32>
    }
    graph.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
