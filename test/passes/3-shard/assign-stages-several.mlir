// RUN: llmc-opt %s --llmc-assign-stages | FileCheck %s

// Divides layers that differ, several repeats, in the order in which they run: a group of two
// attentions counts as two of the four layers of stage 0. What stands between two repeats is where
// the first one ends, forward and backward.
// CHECK: parallel.stage_layers = array<i64: 4, 3>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 4, 3>} {
  func.func @micro(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "loss"}, tensor<1x4x2x8xf32> {graph.output = "dx"}) {
    // CHECK: graph.repeat 2
    %0 = graph.repeat 2 carried(%x : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %p, %m = graph.attention %o, %o, %o {scale = 1.0, causal = true, window = 2} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      graph.yield %p : tensor<1x4x2x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 2, 0>
    // CHECK: graph.neg {{.*}}parallel.stage = 0
    %1 = graph.neg %0 : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    // CHECK: graph.repeat 3
    %2 = graph.repeat 3 carried(%1 : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %a = graph.tanh %h : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
      graph.yield %a : tensor<1x4x2x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 0, 3>
    // CHECK: graph.exp {{.*}}parallel.stage = 1
    %3 = graph.exp %2 {graph.backward} : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    // Mirrors the division in the backward pass.
    // CHECK: graph.repeat 3 reverse
    %4 = graph.repeat 3 reverse carried(%3 : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> attributes {graph.backward} {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %a = graph.tanh %h {graph.backward} : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
      graph.yield %a : tensor<1x4x2x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 0, 3>
    // CHECK: graph.neg {{.*}}parallel.stage = 0
    %5 = graph.neg %4 {graph.backward} : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    // CHECK: graph.repeat 2 reverse
    %6 = graph.repeat 2 reverse carried(%5 : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> attributes {graph.backward} {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %a = graph.tanh %h {graph.backward} : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
      graph.yield %a : tensor<1x4x2x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 2, 0>
    // CHECK: graph.abs {{.*}}parallel.stage = 0
    %7 = graph.abs %6 {graph.backward} : (tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xf32>
    return %2, %7 : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>
  }
}
