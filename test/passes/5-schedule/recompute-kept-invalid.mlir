// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-recompute=mode=auto

// Of the values that backward has not anyway 0 is the product and 1 the exponential. The product would do;
// there is no value 3.
// expected-error @+1 {{plan.kept does not fit stage 0 : i64: it names what a block does not have, or too little to compute what the backward reads}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=1]>,
                   plan.kept = [{stage = 0, bytes = 64, blocks = [array<i64: 3>]}]} {
  func.func @forward_0(%x: tensor<4x4xf32> {graph.input = "x"})
      -> (tensor<4x4xf32> {parallel.residual = 0 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %p = graph.matmul "bd,de->be" %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = graph.exp %p : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %e : tensor<4x4xf32>
  }
  func.func @backward_0(%e: tensor<4x4xf32> {parallel.residual = 0 : i64}) -> tensor<4x4xf32>
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %n = graph.neg %e : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %n : tensor<4x4xf32>
  }
}

// -----

// A boundary activation cannot be computed again, and is not kept.
// expected-error @+1 {{plan.kept does not fit stage 1 : i64}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>,
                   plan.kept = [{stage = 1, bytes = 0, blocks = [array<i64>]}]} {
  func.func @forward_1(%x: tensor<4x4xf32> {parallel.boundary = 0 : i64})
      -> (tensor<4x4xf32> {parallel.residual = 0 : i64})
      attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
    %e = graph.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %e : tensor<4x4xf32>
  }
  func.func @backward_1(%e: tensor<4x4xf32> {parallel.residual = 0 : i64}) -> tensor<4x4xf32>
      attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
    %n = graph.neg %e : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %n : tensor<4x4xf32>
  }
}
