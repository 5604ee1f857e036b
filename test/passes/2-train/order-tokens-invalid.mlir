// RUN: llmc-opt %s --split-input-file --llmc-order-tokens=ranks=2 --verify-diagnostics

// expected-error @+1 {{T1: 2 ranks of a ring take two blocks each of a row, and 4 blocks do not divide 6 tokens; the nearest valid numbers are 4 and 8, if the model has so many positions, or use --cp-kind heads}}
func.func @forward(%x: tensor<2x6xf32> {graph.input = "x"}) -> tensor<2xf32> {
  %h = graph.reshape %x : (tensor<2x6xf32>) -> tensor<2x6x1x1xf32>
  %o, %lse = graph.attention %h, %h, %h {scale = 0.5 : f64, causal = true}
      : (tensor<2x6x1x1xf32>, tensor<2x6x1x1xf32>, tensor<2x6x1x1xf32>) -> (tensor<2x6x1x1xf32>, tensor<2x6x1xf32>)
  %s = graph.reduce %o {dims = array<i64: 1, 2, 3>, kind = #graph.reduce_kind<sum>} : (tensor<2x6x1x1xf32>) -> tensor<2xf32>
  return %s : tensor<2xf32>
}

// -----

// A slice of tokens depends on their order.
// expected-remark @+1 {{tokens keep their order, so that ranks of a ring have unequal work in attention: graph.slice depends on the order of tokens}}
func.func @forward(%x: tensor<2x8xf32> {graph.input = "x"}) -> tensor<2xf32> {
  %h = graph.reshape %x : (tensor<2x8xf32>) -> tensor<2x8x1x1xf32>
  %o, %lse = graph.attention %h, %h, %h {scale = 0.5 : f64, causal = true}
      : (tensor<2x8x1x1xf32>, tensor<2x8x1x1xf32>, tensor<2x8x1x1xf32>) -> (tensor<2x8x1x1xf32>, tensor<2x8x1xf32>)
  %last = graph.slice %o {starts = array<i64: 0, 7, 0, 0>, limits = array<i64: 2, 8, 1, 1>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x8x1x1xf32>) -> tensor<2x1x1x1xf32>
  %s = graph.reduce %last {dims = array<i64: 1, 2, 3>, kind = #graph.reduce_kind<sum>} : (tensor<2x1x1x1xf32>) -> tensor<2xf32>
  return %s : tensor<2xf32>
}
