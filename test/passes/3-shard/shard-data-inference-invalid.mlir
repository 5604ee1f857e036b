// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-assign-stages --llmc-shard-data --llmc-shard-tensor

module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  // expected-error @+1 {{no input has a batch that dp = 2 ranks could share; use dp = 1}}
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    return %x : tensor<4x8xf32>
  }
}

// -----

module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=4, "pp"=1, "tp"=1]>} {
  // expected-error @+1 {{input "x" has 3 rows, which 4 data-parallel ranks cannot share; the nearest valid size is 4}}
  func.func @forward(%x: tensor<3x8xf32> {graph.input = "x", graph.batched}) -> (tensor<3x8xf32> {graph.output = "y"}) {
    return %x : tensor<3x8xf32>
  }
}

// -----

// expected-error @+1 {{tactic stages needs @forward and parallel.mesh}}
module attributes {graph.mode = "infer"} {}
