// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-assign-stages

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{pp = 3 stages for 2 layers; every stage needs a layer, so pp is at most 2}}
    %0 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.tanh %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %0 : tensor<4x8xf32>
  }
}

// -----

// expected-error @+1 {{pp = 2 needs repeated layers to divide, and none were recognised; use pp = 1}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    return %x : tensor<4x8xf32>
  }
}

// -----

// expected-error @+1 {{tactic stages needs @micro and parallel.mesh}}
module {}
