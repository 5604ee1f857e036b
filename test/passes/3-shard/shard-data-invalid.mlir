// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-shard-data

module attributes {parallel.mesh = #parallel.mesh<["dp"=4, "pp"=1, "tp"=1]>} {
  // expected-error @+1 {{input "x" has 6 rows, which 4 data-parallel ranks cannot share; the nearest valid sizes are 4 and 8}}
  func.func @micro(%x: tensor<6x8xf32> {graph.input = "x"}) -> (tensor<6x8xf32> {graph.output = "y"}) {
    %0 = graph.tanh %x : (tensor<6x8xf32>) -> tensor<6x8xf32>
    return %0 : tensor<6x8xf32>
  }
}

// -----

// expected-error @+1 {{tactic data needs @micro and parallel.mesh}}
module {}
