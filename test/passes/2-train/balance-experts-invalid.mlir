// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-balance-experts="aux-loss=0.5 bias-rate=0.001"

// Without @forward there is nothing to balance.
// expected-error@+1 {{needs a function @forward with a body, found none; raise the model first}}
module {
}

// -----

// Rows without a dim of tokens, and a router without a bias.
func.func @forward(%x: tensor<8x4xf32> {graph.input = "x"}) -> (tensor<8x2xi64> {graph.output = "y"}) {
  // expected-error@+2 {{B1: scores have type 'tensor<8x4xf32>', expected [batch, tokens, experts]: the auxiliary loss is one of each row of tokens; take a config.json, or a file whose router keeps rows apart}}
  // expected-error@+1 {{B2: has no bias, expected one that training can move}}
  %r = graph.route %x {mixture} : (tensor<8x4xf32>) -> tensor<8x2xi64>
  return %r : tensor<8x2xi64>
}

// -----

// A bias that comes as an input.
func.func @forward(%x: tensor<2x4x4xf32> {graph.input = "x"}, %b: tensor<4xf32> {graph.input = "b"})
    -> (tensor<2x4x2xi64> {graph.output = "y"}) {
  // expected-error@+1 {{B2: has a bias that is no parameter, expected one that training can move}}
  %r = graph.route %x, %b {mixture} : (tensor<2x4x4xf32>, tensor<4xf32>) -> tensor<2x4x2xi64>
  return %r : tensor<2x4x2xi64>
}
