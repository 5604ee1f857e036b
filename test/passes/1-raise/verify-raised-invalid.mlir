// RUN: llmc-opt %s --llmc-verify-raised --split-input-file --verify-diagnostics

// expected-error@+1 {{R1: argument 0 is neither an input nor bound to a state; give it graph.input or graph.state}}
func.func @r1_unbound(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

graph.source @w : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4xf32> parameter views [#graph.view<@w, 0, [1]>]
// expected-error@+1 {{R1: arguments 0 and 1 are both bound to @a; use one argument}}
func.func @r1_twice(%x: tensor<4xf32> {graph.state = @a}, %y: tensor<4xf32> {graph.state = @a}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

graph.source @w : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4xf32> parameter views [#graph.view<@w, 0, [1]>]
// expected-error@+1 {{R1: argument 0 has type 'tensor<3xf32>', its state @a 'tensor<4xf32>'; make them equal}}
func.func @r1_type(%x: tensor<3xf32> {graph.state = @a}) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

// -----

graph.source @w : tensor<4x12xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<4x6xf32> parameter views [#graph.view<@w, 0, [12, 1]>]
// expected-error@+1 {{R2: views elements of 'w' that @a views too; each element belongs to one parameter}}
graph.state @b : tensor<4x7xf32> parameter views [#graph.view<@w, 5, [12, 1]>]

// -----

graph.source @w : tensor<4xf32> {init = #graph.init_kind<zeros>}
// expected-error@+1 {{R2: views elements of 'w' that @a views too}}
graph.state @a : tensor<2x4xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 0, [1]>]

// -----

// Views that repeat an element, run backward, or belong to one expert each.
graph.source @w : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<2xf32> parameter views [#graph.view<@w, 1, [0]>]
// expected-error@+1 {{R2: views elements of 'w' that @a views too}}
graph.state @b : tensor<3xf32> parameter views [#graph.view<@w, 1, [0]>]

// -----

graph.source @w : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @a : tensor<2xf32> parameter views [#graph.view<@w, 1, [1]>]
// expected-error@+1 {{R2: views elements of 'w' that @a views too}}
graph.state @b : tensor<4xf32> parameter views [#graph.view<@w, 3, [-1]>]

// -----

graph.source @w : tensor<12xf32> {init = #graph.init_kind<zeros>}
// expected-error@+1 {{R2: views elements of 'w' that @a views too}}
graph.state @a : tensor<1x2x4xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 3, [1]>]

// -----

func.func @r3(%x: tensor<4xf32> {graph.input = "x"}) -> tensor<4xf32> {
  // expected-error@+1 {{R3: carries no value from layer to layer; a fold without one is no layer}}
  graph.repeat 2 carried() stacked() captured(%x : tensor<4xf32>) {
  ^bb0(%y: tensor<4xf32>):
    graph.yield
  }
  return %x : tensor<4xf32>
}
