// RUN: llmc-opt %s --llmc-add-optimizer --split-input-file --verify-diagnostics

// expected-error@+1 {{needs a function @micro, found none; differentiate first}}
module {}

// -----

graph.source @w : tensor<2xf32> {init = #graph.init_kind<zeros>}
// expected-error@+1 {{has no accumulator in @micro; differentiate first}}
graph.state @p : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
func.func @micro(%p: tensor<2xf32> {graph.state = @p}) {
  return
}

// -----

graph.source @w : tensor<2xf64> {init = #graph.init_kind<zeros>}
// expected-error@+1 {{is a parameter in 'f64', expected f32, bf16 or f16; import the model with f32 weights}}
graph.state @p : tensor<2xf64> parameter views [#graph.view<@w, 0, [1]>]
func.func @micro(%p: tensor<2xf64> {graph.state = @p}) {
  return
}

// -----

graph.state @sum : tensor<f32> accumulator
// expected-error@+1 {{binds 1 accumulators that belong to no parameter and have no graph.sum_of, expected two: the sum of the loss and the count of tokens}}
func.func @micro(%s: tensor<f32> {graph.state = @sum}) {
  return
}

// -----

// expected-error@+1 {{has a symbol @update already; the optimizer is added once}}
module {
  graph.state @sum : tensor<f32> accumulator
  graph.state @count : tensor<f32> accumulator
  func.func @micro(%s: tensor<f32> {graph.state = @sum}, %c: tensor<f32> {graph.state = @count}) {
    return
  }
  func.func @update() {
    return
  }
}
