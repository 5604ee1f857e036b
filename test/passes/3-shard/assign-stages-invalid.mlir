// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-assign-stages

// Needs a layer for each stage where nothing says how they divide.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{pp = 3 stages for 2 groups of layers; every stage needs one, unless 'parallel.stage_layers' says otherwise}}
    %0 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.tanh %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %0 : tensor<4x8xf32>
  }
}

// -----

// Refuses a stage that begins inside of a group of two layers.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 3, 1>} {
  func.func @micro(%x: tensor<1x4x2x8xf32> {graph.input = "x"}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{'parallel.stage_layers' divides the layers as [3, 1], which does not fit groups of 2 here}}
    %0 = graph.repeat 2 carried(%x : tensor<1x4x2x8xf32>) stacked() captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>):
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %p, %m = graph.attention %o, %o, %o {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      graph.yield %p : tensor<1x4x2x8xf32>
    }
    return %0 : tensor<1x4x2x8xf32>
  }
}

// -----

// Refuses more layers than there are.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 2, 1>} {
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{'parallel.stage_layers' divides the layers as [2, 1], and there are fewer}}
    %0 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.tanh %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %0 : tensor<4x8xf32>
  }
}

// -----

// Refuses a backward pass with other repeats than the forward's.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1>} {
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    %0 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.tanh %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // expected-error @+1 {{layers of the backward pass do not mirror the forward's}}
    %1 = graph.repeat 3 reverse carried(%0 : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> attributes {graph.backward} {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.tanh %h {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %1 : tensor<4x8xf32>
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
