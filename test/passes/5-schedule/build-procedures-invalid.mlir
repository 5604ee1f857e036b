// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-build-procedures

// expected-error @+1 {{has no parallel.mesh}}
module {}

// -----

// expected-error @+1 {{stage 0 lacks a forward, backward or update function}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
}

// -----

// Whatever is bound to nothing has no place.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  // expected-error @+1 {{argument 0 has no binding}}
  func.func @forward_0(%x: tensor<4xf32>) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  // expected-error @+1 {{result 0 has no binding}}
  func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> tensor<4xf32> attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return %x : tensor<4xf32>
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

// A residual that the forward pass does not make.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
  // expected-error @+1 {{argument 0 is residual 3, which the forward does not produce}}
  func.func @backward_0(%h: tensor<4xf32> {parallel.residual = 3 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  // expected-error @+1 {{argument 0 is bound to unknown state @w}}
  func.func @forward_0(%x: tensor<4xf32> {graph.state = @w}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} { return }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

// Parts of a dimension behind many others would be as many calls.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  func.func @forward_0(%x: tensor<33x8xf32> {graph.input = "x"}) -> (tensor<33x16xf32> {parallel.residual = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    // expected-error @+1 {{moves 33 slices before dimension 1; a collective moves at most 32 (transpose before and after it)}}
    %0 = parallel.all_gather %x over ["tp"] dim 1 : (tensor<33x8xf32>) -> tensor<33x16xf32>
    return %0 : tensor<33x16xf32>
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
  func.func @forward_0(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<8x4xf32> {parallel.residual = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    // expected-error @+1 {{exchanges dimension 1 for 0; a collective moves dimension 0 (transpose before and after it)}}
    %0 = parallel.all_to_all %x over ["tp"] split 1 concat 0 : (tensor<4x8xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}

// -----

// Layers must be written out first.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>} {
  func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {parallel.residual = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    // expected-error @+1 {{has no instruction}}
    %0 = graph.repeat 2 carried(%x : tensor<4xf32>) stacked() captured() -> tensor<4xf32> {
    ^bb0(%h: tensor<4xf32>):
      %a = graph.tanh %h : (tensor<4xf32>) -> tensor<4xf32>
      graph.yield %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} { return }
  func.func @update_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} { return }
}
