// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-verify-shardings

// S1: layers of the stages sum to the count.
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{S1: layers of the stages sum to 2, expected 3}}
    %0 = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32> attributes {parallel.layers = array<i64: 1, 1>} {
    ^bb0(%h: tensor<4x8xf32>):
      %a = graph.tanh %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %0 : tensor<4x8xf32>
  }
}

// -----

// S2: an axis without an origin.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  func.func @micro(%x: tensor<4x8xf32> {graph.input = "x", parallel.sharding = #parallel.sharding<[{"dp"}, {}]>}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{S2: axis "dp" has no origin}}
    %0 = graph.tanh %x {parallel.in = [#parallel.sharding<[{"dp"}, {}]>], parallel.out = [#parallel.sharding<[{"dp"}, {}]>]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}

// -----

// S3: tensor ranks do not share states out.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
  graph.state @a : tensor<8xf32> accumulator {parallel.flat_axes = ["dp"]}
  // expected-error @+1 {{S3: is shared out over ["tp"], expected the axes of data-parallel ranks that do not cut it, each once, the same for all states that are cut alike}}
  graph.state @b : tensor<8xf32> accumulator {parallel.flat_axes = ["tp"]}
}

// -----

// S3: nor does an axis share states out twice.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
  graph.state @a : tensor<8xf32> accumulator {parallel.flat_axes = ["dp"]}
  // expected-error @+1 {{S3: is shared out over ["dp", "dp"], expected the axes of data-parallel ranks that do not cut it, each once, the same for all states that are cut alike}}
  graph.state @b : tensor<8xf32> accumulator {parallel.flat_axes = ["dp", "dp"]}
}
