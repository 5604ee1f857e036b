// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-shard-context

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=3, "tp"=1]>} {
  // expected-error @+1 {{input "ids" has 4 tokens in a row, which cp = 3 ranks cannot share; the nearest valid numbers are 3 and 6}}
  func.func @micro(%ids: tensor<2x4xi64> {graph.input = "ids"}) -> (tensor<2x4xi64> {graph.output = "y"}) {
    return %ids : tensor<2x4xi64>
  }
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=2, "tp"=1]>} {
  // expected-error @+1 {{no attention is found whose heads or tokens cp = 2 ranks could share; use cp = 1}}
  func.func @micro(%ids: tensor<2x4xi64> {graph.input = "ids"}) -> (tensor<2x4xi64> {graph.output = "y"}) {
    return %ids : tensor<2x4xi64>
  }
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=2, "tp"=1]>} {
  // expected-error @+1 {{no input has rows of tokens that cp = 2 ranks could share; use cp = 1}}
  func.func @micro(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {graph.output = "y"}) {
    return %x : tensor<4xf32>
  }
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=2, "tp"=1]>} {
  func.func @micro(%ids: tensor<2x4xi64> {graph.input = "ids"}, %q: tensor<2x4x3x4xf32>) -> (tensor<2x4x3x4xf32> {graph.output = "y"}) {
    // expected-error @+1 {{has 3 heads, which cp = 2 times tp = 1 ranks cannot share; valid sizes of cp are 1 3}}
    %o, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64, causal = true, offset = 0 : i64, softcap = 0.0 : f64}
        : (tensor<2x4x3x4xf32>, tensor<2x4x3x4xf32>, tensor<2x4x3x4xf32>) -> (tensor<2x4x3x4xf32>, tensor<2x4x3xf32>)
    return %o : tensor<2x4x3x4xf32>
  }
}

// -----

module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "cp"=2, "tp"=1]>} {
  // expected-error @+1 {{input "past" has 4 dimensions, as a cache of keys has; cp shares out whole sequences of tokens: use cp = 1}}
  func.func @forward(%past: tensor<2x2x4x4xf32> {graph.input = "past", graph.batched}) -> (tensor<2x2x4x4xf32> {graph.output = "y"}) {
    return %past : tensor<2x2x4x4xf32>
  }
}
