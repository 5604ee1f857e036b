// RUN: llmc-opt %s --split-input-file --llmc-assign-stages | FileCheck %s

// Gives five layers to three stages as the module's list says. What the layers need is on stage 0,
// everything else on the last.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>, parallel.stage_layers = array<i64: 2, 2, 1>} {
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

// -----

// Keeps what precedes the layers on the first stage and what follows them on the last, forward and
// backward, where these have no layers themselves.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=4, "tp"=1]>, parallel.stage_layers = array<i64: 0, 1, 2, 0>} {
  // CHECK-LABEL: func.func @micro
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "loss"}, tensor<4x8xf32> {graph.output = "dx"}) {
    // CHECK: graph.tanh {{.*}}parallel.stage = 0
    %0 = graph.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.repeat 3
    %1 = graph.repeat 3 carried(%0 : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.neg %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 0, 1, 2, 0>
    // CHECK: graph.exp {{.*}}parallel.stage = 3
    %2 = graph.exp %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.abs {{.*}}parallel.stage = 3
    %3 = graph.abs %2 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.repeat 3 reverse
    %4 = graph.repeat 3 reverse carried(%3 : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> attributes {graph.backward} {
    ^bb0(%d: tensor<4x8xf32>):
      %a = graph.neg %d {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 0, 1, 2, 0>
    // CHECK: graph.sqrt {{.*}}parallel.stage = 0
    %5 = graph.sqrt %4 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %2, %5 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Names virtual stages where the list has several for each stage of the mesh. The parts that the
// division has cut follow each other, and what stands between them is where the first one ends, forward and
// backward: a weight there is read where its gradient is added.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1, 1, 1>} {
  // CHECK-LABEL: func.func @micro
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "loss"}, tensor<4x8xf32> {graph.output = "dx"}) {
    // CHECK: graph.repeat 2
    %0 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.neg %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 1, 1, 0, 0>
    // CHECK: graph.tanh {{.*}}parallel.stage = 1
    %1 = graph.tanh %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.repeat 2
    %2 = graph.repeat 2 carried(%1 : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.neg %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 0, 0, 1, 1>
    // CHECK: graph.exp {{.*}}parallel.stage = 3
    %3 = graph.exp %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: graph.abs {{.*}}parallel.stage = 3
    %4 = graph.abs %3 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = graph.repeat 2 reverse carried(%4 : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> attributes {graph.backward} {
    ^bb0(%d: tensor<4x8xf32>):
      %a = graph.neg %d {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 0, 0, 1, 1>
    // CHECK: graph.sqrt {{.*}}parallel.stage = 1
    %6 = graph.sqrt %5 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %7 = graph.repeat 2 reverse carried(%6 : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> attributes {graph.backward} {
    ^bb0(%d: tensor<4x8xf32>):
      %a = graph.neg %d {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 1, 1, 0, 0>
    // CHECK: graph.cos {{.*}}parallel.stage = 0
    %8 = graph.cos %7 {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %3, %8 : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

// Counts the layers of a single stage, which nothing has divided: a body with two attentions is two.
// CHECK: parallel.stage_layers = array<i64: 4>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  // CHECK-LABEL: func.func @micro
  func.func @micro(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    %0 = graph.repeat 2 carried(%x : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %p, %m = graph.attention %o, %o, %o {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      graph.yield %p : tensor<1x4x2x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 2>
    return %0 : tensor<1x4x2x8xf32>
  }
}
