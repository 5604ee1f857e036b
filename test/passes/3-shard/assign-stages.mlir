// RUN: llmc-opt %s --llmc-assign-stages | FileCheck %s

// Five layers over three stages: of the remainder the stages before the last get one
// each. What the layers need is on stage 0, everything else on the last.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  // CHECK-LABEL: func.func @micro
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %y: tensor<4x8xf32> {graph.input = "labels"},
                   %w: tensor<5x8x8xf32> {graph.input = "w"}) -> (tensor<4x8xf32> {graph.output = "loss"}, tensor<4x8xf32> {graph.output = "dx"}) {
    // CHECK: graph.tanh {{.*}}parallel.stage = 0
    %0 = graph.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.repeat 5
    %1, %r = graph.repeat 5 carried(%0 : tensor<4x8xf32>) stacked(%w : tensor<5x8x8xf32>) captured() -> tensor<4x8xf32> stacking tensor<5x4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a, %h : tensor<4x8xf32>, tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 2, 2, 1>
    // Labels are not needed by any layer.
    // CHECK: graph.neg {{.*}}parallel.stage = 2
    %2 = graph.neg %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.add {{.*}}parallel.stage = 2
    %3 = graph.add %1, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    // Backward: the cotangent starts at the last stage and leaves the layers at stage 0.
    // CHECK: graph.exp {{.*}}parallel.stage = 2
    %4 = graph.exp %3 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = graph.repeat 5 reverse carried(%4 : tensor<4x8xf32>) stacked(%w, %r : tensor<5x8x8xf32>, tensor<5x4x8xf32>) captured() -> tensor<4x8xf32> attributes {graph.backward} {
    ^bb0(%d: tensor<4x8xf32>, %wi: tensor<8x8xf32>, %h: tensor<4x8xf32>):
      %a = graph.matmul "be,de->bd" %d, %wi {graph.backward} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // What the backward pass makes of a forward value stands where that is made.
    // CHECK: graph.abs {{.*}}parallel.stage = 0
    %7 = graph.abs %0 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.mul {{.*}}parallel.stage = 0
    %6 = graph.mul %5, %7 {graph.backward} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3, %6 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}
