// RUN: llmc-opt %s --llmc-add-loss --split-input-file --verify-diagnostics

// expected-error@+1 {{needs a function @forward with a body, found none; raise the model first}}
module {}

// -----

// expected-error@+1 {{returns nothing, expected the logits as its first result}}
func.func @forward() {
  return
}

// -----

func.func @forward(%x: tensor<2x3xi64>) -> tensor<2x3xi64> {
  // expected-error@+1 {{the model's first output has type 'tensor<2x3xi64>', expected logits: floats of shape}}
  %0 = graph.add %x, %x : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi64>
  return %0 : tensor<2x3xi64>
}

// -----

func.func @forward(%x: tensor<2x3xf32>) -> tensor<f32> {
  // expected-error@+1 {{the model's first output has type 'tensor<f32>', expected logits: floats of shape}}
  %0 = graph.reduce %x {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum>} : (tensor<2x3xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// expected-error@+1 {{argument 0 is already called labels; training adds its own labels}}
func.func @forward(%x: tensor<2x3xf32> {graph.input = "labels"}) -> tensor<2x3xf32> {
  return %x : tensor<2x3xf32>
}
