// RUN: llmc-opt %s --llmc-add-dropout="embedding=0.1 attention=0.1 attention-output=0.1 mlp-output=0.1" --split-input-file --verify-diagnostics

// expected-error@+1 {{needs a function @forward with a body, found none; raise the model first}}
module {}

// -----

// There is no branch, and so no place (D1).

graph.source @t : tensor<11x8xf32> {init = #graph.init_kind<zeros>}
graph.state @table : tensor<11x8xf32> parameter views [#graph.view<@t, 0, [8, 1]>]

// expected-error@+4 {{D1: the model has no place for dropout of embeddings: no token is looked up}}
// expected-error@+3 {{D1: the model has no place for dropout of attention weights: there is neither}}
// expected-error@+2 {{D1: the model has no place for dropout of outputs of attention: none is added}}
// expected-error@+1 {{D1: the model has no place for dropout of outputs of MLPs: none is added}}
func.func @forward(%ids: tensor<2x5xi64> {graph.input = "ids"}, %t: tensor<11x8xf32> {graph.state = @table}) -> tensor<2x5x8xf32> {
  %0 = graph.gather %t, %ids : (tensor<11x8xf32>, tensor<2x5xi64>) -> tensor<2x5x8xf32>
  return %0 : tensor<2x5x8xf32>
}

// -----

// Tokens of all rows lie in one dimension, so that a token has no row (D2).

graph.source @t : tensor<11x8xf32> {init = #graph.init_kind<zeros>}
graph.state @table : tensor<11x8xf32> parameter views [#graph.view<@t, 0, [8, 1]>]

func.func @forward(%ids: tensor<2x5xi64> {graph.input = "ids"}, %t: tensor<11x8xf32> {graph.state = @table}, %w: tensor<8x8xf32>) -> tensor<10x8xf32> {
  %flat = graph.reshape %ids : (tensor<2x5xi64>) -> tensor<10xi64>
  // expected-error@+1 {{D2: dropout needs a value of [rows, tokens, features] with 2 rows of 5 tokens, got 'tensor<10x8xf32>'; leave this model's --dropout at 0}}
  %0 = graph.gather %t, %flat : (tensor<11x8xf32>, tensor<10xi64>) -> tensor<10x8xf32>
  // expected-error@+1 {{D2: dropout needs a value of [rows, tokens, features]}}
  %m = graph.matmul "sd,de->se" %0, %w : (tensor<10x8xf32>, tensor<8x8xf32>) -> tensor<10x8xf32>
  %x = graph.add %0, %m : (tensor<10x8xf32>, tensor<10x8xf32>) -> tensor<10x8xf32>
  // expected-error@+1 {{D2: dropout needs attention weights of [rows, heads, tokens, keys] with 2 rows of 5 tokens, got 'tensor<10x8xf32>'}}
  %s = graph.softmax %x : (tensor<10x8xf32>) -> tensor<10x8xf32>
  // expected-error@+1 {{D2: dropout needs a value of [rows, tokens, features]}}
  %p = graph.matmul "sd,de->se" %s, %w : (tensor<10x8xf32>, tensor<8x8xf32>) -> tensor<10x8xf32>
  %y = graph.add %x, %p : (tensor<10x8xf32>, tensor<10x8xf32>) -> tensor<10x8xf32>
  return %y : tensor<10x8xf32>
}

// -----

// expected-error@+1 {{D3: argument 0 is already called dropout_keys; rename this input of the model}}
func.func @forward(%x: tensor<2xi64> {graph.input = "dropout_keys"}) -> tensor<2xi64> {
  return %x : tensor<2xi64>
}

// -----

// expected-error@+1 {{D2: has no input of [rows, tokens], so that elements have no position to draw by}}
func.func @forward(%x: tensor<2xi64> {graph.input = "ids"}) -> tensor<2xi64> {
  return %x : tensor<2xi64>
}

// -----

// The first layer is given the embeddings, the second a branch (D1).

graph.source @t : tensor<11x8xf32> {init = #graph.init_kind<zeros>}
graph.state @table : tensor<11x8xf32> parameter views [#graph.view<@t, 0, [8, 1]>]

// expected-error@+4 {{D1: the model has no place for dropout of embeddings}}
// expected-error@+3 {{D1: the model has no place for dropout of attention weights}}
// expected-error@+2 {{D1: the model has no place for dropout of outputs of attention}}
// expected-error@+1 {{D1: the model has no place for dropout of outputs of MLPs}}
func.func @forward(%ids: tensor<2x5xi64> {graph.input = "ids"}, %t: tensor<11x8xf32> {graph.state = @table}, %w: tensor<2x8x8xf32>) -> tensor<2x5x8xf32> {
  %0 = graph.gather %t, %ids : (tensor<11x8xf32>, tensor<2x5xi64>) -> tensor<2x5x8xf32>
  // expected-error@+1 {{D1: carries a branch from layer to layer}}
  %1 = graph.repeat 2 carried(%0 : tensor<2x5x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<2x5x8xf32> {
  ^bb0(%h: tensor<2x5x8xf32>, %v: tensor<8x8xf32>):
    %q = graph.matmul "bsd,de->bse" %h, %v : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
    graph.yield %q : tensor<2x5x8xf32>
  }
  return %1 : tensor<2x5x8xf32>
}
