// RUN: llmc-opt %s --llmc-assign-stages | FileCheck %s

// Joins what layers stack of constants, one a layer, stage by stage, once for the forward and the
// backward layers; the old join goes.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 2, 1>} {
  // CHECK-LABEL: func.func @micro
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %y: tensor<4x8xf32> {graph.input = "labels"},
                   %w: tensor<3x8x8xf32> {graph.input = "w"}) -> (tensor<4x8xf32> {graph.output = "loss"}, tensor<4x8xf32> {graph.output = "dx"}) {
    // CHECK: %[[C0:.*]] = graph.constant dense<1.0
    // CHECK: %[[C1:.*]] = graph.constant dense<2.0
    // CHECK: %[[C2:.*]] = graph.constant dense<3.0
    %c0 = graph.constant dense<1.0> : tensor<1x8xf32>
    %c1 = graph.constant dense<2.0> : tensor<1x8xf32>
    %c2 = graph.constant dense<3.0> : tensor<1x8xf32>
    // CHECK-NOT: graph.concat %[[C0]], %[[C1]], %[[C2]]
    // CHECK: %[[A:.*]] = graph.concat %[[C0]], %[[C1]] {dim = 0
    // CHECK: %[[S:.*]] = graph.concat %[[A]], %[[C2]] {dim = 0
    // CHECK-NOT: graph.concat
    %c = graph.concat %c0, %c1, %c2 {dim = 0 : i64} : (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
    // CHECK: graph.repeat 3 {{.*}}stacked(%{{.*}}, %[[S]] :
    %1, %r = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w, %c : tensor<3x8x8xf32>, tensor<3x8xf32>) captured() -> tensor<4x8xf32> stacking tensor<3x4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>, %ci: tensor<8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %b = graph.mul %a, %ci : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      graph.yield %b, %h : tensor<4x8xf32>, tensor<4x8xf32>
    }
    %3 = graph.add %1, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = graph.exp %3 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // Marks the parts of what the backward pass makes as backward too.
    // CHECK: %[[N:.*]] = graph.neg
    // CHECK-DAG: %[[N0:.*]] = graph.slice %[[N]] {graph.backward, limits = array<i64: 2, 4, 8>
    // CHECK-DAG: %[[N1:.*]] = graph.slice %[[N]] {graph.backward, limits = array<i64: 3, 4, 8>
    // CHECK: %[[NS:.*]] = graph.concat %[[N0]], %[[N1]] {dim = 0 : i64, graph.backward
    %n = graph.neg %r {graph.backward} : (tensor<3x4x8xf32>) -> tensor<3x4x8xf32>
    // CHECK: graph.repeat 3 reverse {{.*}}stacked(%{{.*}}, %[[S]], %[[NS]] :
    %5 = graph.repeat 3 reverse carried(%4 : tensor<4x8xf32>) stacked(%w, %c, %n : tensor<3x8x8xf32>, tensor<3x8xf32>, tensor<3x4x8xf32>) captured() -> tensor<4x8xf32> attributes {graph.backward} {
    ^bb0(%d: tensor<4x8xf32>, %wi: tensor<8x8xf32>, %ci: tensor<8xf32>, %ni: tensor<4x8xf32>):
      %b = graph.mul %d, %ci {graph.backward} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
      %a = graph.matmul "be,de->bd" %b, %wi {graph.backward} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %3, %5 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
