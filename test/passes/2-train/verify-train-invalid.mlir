// RUN: llmc-opt %s --llmc-verify-train --split-input-file --verify-diagnostics

// C1: both functions, and nothing left of the model alone.
// expected-error@+2 {{C1: the module has no function @micro with a body}}
// expected-error@+1 {{C1: the module has no function @update with a body}}
module {
  // expected-error@+1 {{C1: @forward is still there, expected @micro in its place}}
  func.func @forward() {
    return
  }
}

// -----

// C2: a state of another type, and none at all.
graph.state @n : tensor<f32> accumulator
// expected-error@+2 {{C2: argument 0 has type 'tensor<2xf32>', expected 'tensor<f32>', the type of @n}}
// expected-error@+1 {{C2: argument 1 is bound to @gone, which is no graph.state}}
func.func @micro(%n: tensor<2xf32> {graph.state = @n}, %g: tensor<f32> {graph.state = @gone}) -> (tensor<2xf32> {graph.state = @n}) {
  return %n : tensor<2xf32>
}
// expected-error@-3 {{C2: result 0 has type 'tensor<2xf32>', expected 'tensor<f32>', the type of @n}}
func.func @update(%l: tensor<f32>) -> (tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  return %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// C3 and C6: an accumulator that is bound twice.
graph.state @n : tensor<f32> accumulator
// expected-error@+2 {{C3: @n is bound twice among the arguments}}
// expected-error@+1 {{C6: @micro returns @n in 1 results, expected its accumulators in argument order: @n @n}}
func.func @micro(%n: tensor<f32> {graph.state = @n}, %m: tensor<f32> {graph.state = @n}) -> (tensor<f32> {graph.state = @n}) {
  return %n : tensor<f32>
}
func.func @update(%l: tensor<f32>) -> (tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  return %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// C4, C5 and C9: a parameter that is forgotten.
graph.source @w : tensor<2xf32> {init = #graph.init_kind<zeros>}
// expected-error@+4 {{C4: parameter @p is no argument of @micro}}
// expected-error@+3 {{C4: parameter @p is no argument of @update}}
// expected-error@+2 {{C9: @update does not return parameter @p}}
// expected-error@+1 {{C5: parameter @p has 0 accumulators, expected 1}}
graph.state @p : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
func.func @micro() {
  return
}
func.func @update(%l: tensor<f32>) -> (tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  return %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// C5, C6 and C9: an accumulator of another shape that nothing holds.
graph.source @w : tensor<2xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
// expected-error@+3 {{C5: @p.grad has type 'tensor<3xf32>', expected the shape of @p, 'tensor<2xf32>'}}
// expected-error@+2 {{C9: @update does not take and return @p.grad, which belongs to parameter @p}}
// expected-error@+1 {{C6: accumulator @p.grad is no argument of @micro}}
graph.state @p.grad : tensor<3xf32> accumulator of @p
func.func @micro(%p: tensor<2xf32> {graph.state = @p}) {
  return
}
func.func @update(%p: tensor<2xf32> {graph.state = @p}, %l: tensor<f32>)
    -> (tensor<2xf32> {graph.state = @p}, tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  return %p, %l, %l, %l : tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// C6: accumulators come back in argument order.
graph.state @n : tensor<f32> accumulator
graph.state @m : tensor<f32> accumulator
// expected-error@+1 {{C6: @micro returns @m @n in 2 results, expected its accumulators in argument order: @n @m}}
func.func @micro(%n: tensor<f32> {graph.state = @n}, %m: tensor<f32> {graph.state = @m}) -> (tensor<f32> {graph.state = @m}, tensor<f32> {graph.state = @n}) {
  return %m, %n : tensor<f32>, tensor<f32>
}
func.func @update(%l: tensor<f32>) -> (tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  return %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// C7: forward waits for backward, and a backward repeat holds a forward op.
graph.state @n : tensor<f32> accumulator
func.func @micro(%x: tensor<2xf32>, %n: tensor<f32> {graph.state = @n}) -> (tensor<f32> {graph.state = @n}) {
  // expected-note@+1 {{made by this backward op}}
  %0 = graph.repeat 2 carried(%x : tensor<2xf32>) stacked() captured() -> tensor<2xf32> attributes {graph.backward} {
  ^bb0(%a: tensor<2xf32>):
    // expected-error@+1 {{C7: a forward op stands in the body of a backward repeat}}
    %b = graph.tanh %a : (tensor<2xf32>) -> tensor<2xf32>
    graph.yield %b : tensor<2xf32>
  }
  // expected-error@+1 {{C7: operand 0 of a forward op is a backward value; forward must not wait for backward}}
  %1 = graph.reduce %0 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<2xf32>) -> tensor<f32>
  %2 = graph.add %n, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func @update(%l: tensor<f32>) -> (tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  return %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// C8: work for nobody, memory for nobody.
graph.state @n : tensor<f32> accumulator
func.func @micro(%x: tensor<2xf32>, %n: tensor<f32> {graph.state = @n}) -> (tensor<f32> {graph.state = @n}) {
  // expected-error@+1 {{C8: nothing reads stacked result 0 of this repeat}}
  %0, %s = graph.repeat 2 carried(%x : tensor<2xf32>) stacked() captured() -> tensor<2xf32> stacking tensor<2x2xf32> {
  ^bb0(%a: tensor<2xf32>):
    // expected-error@+1 {{C8: nothing reads the results of this op}}
    %b = graph.tanh %a : (tensor<2xf32>) -> tensor<2xf32>
    graph.yield %a, %a : tensor<2xf32>, tensor<2xf32>
  }
  %1 = graph.reduce %0 {dims = array<i64: 0>, kind = #graph.reduce_kind<sum>} : (tensor<2xf32>) -> tensor<f32>
  %2 = graph.add %n, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func @update(%l: tensor<f32>) -> (tensor<f32> {graph.output = "loss"}, tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  return %l, %l, %l : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// C10: what a person watches.
func.func @micro() {
  return
}
// expected-error@+3 {{C10: output "loss" has type 'tensor<2xf32>', expected 'tensor<f32>'}}
// expected-error@+2 {{C10: @update returns output "grad_norm" 0 times, expected once}}
// expected-error@+1 {{C10: @update returns output "tokens" 2 times, expected once}}
func.func @update(%l: tensor<2xf32>, %t: tensor<f32>) -> (tensor<2xf32> {graph.output = "loss"}, tensor<f32> {graph.output = "tokens"}, tensor<f32> {graph.output = "tokens"}) {
  return %l, %t, %t : tensor<2xf32>, tensor<f32>, tensor<f32>
}

// -----

// C4, C11: a low parameter needs a master, which @update takes in its place; an
// f32 parameter has none.
graph.source @w : tensor<2xf32> {init = #graph.init_kind<zeros>}
// expected-error@+2 {{C4: parameter @low is no argument of @update and has no master}}
// expected-error@+1 {{C11: parameter @low in 'bf16' has no master, expected one for low types alone}}
graph.state @low : tensor<2xbf16> parameter views [#graph.view<@w, 0, [1]>]
graph.state @low.grad : tensor<2xf32> accumulator of @low
// expected-error@+1 {{C11: parameter @full in 'f32' has a master, expected one for low types alone}}
graph.state @full : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
graph.state @full.grad : tensor<2xf32> accumulator of @full
graph.state @full.master : tensor<2xf32> master of @full
func.func @micro(%l: tensor<2xbf16> {graph.state = @low}, %f: tensor<2xf32> {graph.state = @full},
                 %lg: tensor<2xf32> {graph.state = @low.grad}, %fg: tensor<2xf32> {graph.state = @full.grad})
    -> (tensor<2xf32> {graph.state = @low.grad}, tensor<2xf32> {graph.state = @full.grad}) {
  return %lg, %fg : tensor<2xf32>, tensor<2xf32>
}
func.func @update(%m: tensor<2xf32> {graph.state = @full.master}, %lg: tensor<2xf32> {graph.state = @low.grad},
                  %fg: tensor<2xf32> {graph.state = @full.grad}, %l: tensor<f32>)
    -> (tensor<2xbf16> {graph.state = @low}, tensor<2xf32> {graph.state = @full},
        tensor<2xf32> {graph.state = @full.master}, tensor<2xf32> {graph.state = @low.grad},
        tensor<2xf32> {graph.state = @full.grad}, tensor<f32> {graph.output = "loss"},
        tensor<f32> {graph.output = "grad_norm"}, tensor<f32> {graph.output = "tokens"}) {
  %low = graph.cast %m : (tensor<2xf32>) -> tensor<2xbf16>
  return %low, %m, %m, %lg, %fg, %l, %l, %l : tensor<2xbf16>, tensor<2xf32>, tensor<2xf32>,
      tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<f32>
}
