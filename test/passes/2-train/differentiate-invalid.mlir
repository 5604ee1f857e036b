// RUN: llmc-opt %s --llmc-differentiate --split-input-file --verify-diagnostics

// expected-error@+1 {{needs a function @micro with a body, found none; add a loss first}}
module {}

// -----

// expected-error@+1 {{has no pair of results graph.primal and graph.cotangent, so there is nothing to differentiate; add a loss first}}
func.func @micro(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

// expected-error@+1 {{has only one of the results graph.primal = 3 and graph.cotangent = 3, expected both}}
func.func @micro(%x: tensor<2xf32>) -> (tensor<2xf32> {graph.primal = 3}) {
  return %x : tensor<2xf32>
}

// -----

// expected-error@+1 {{pair 0: the cotangent has type 'tensor<3xf32>', expected the primal's type 'tensor<2xf32>'}}
func.func @micro(%x: tensor<2xf32>, %y: tensor<3xf32>) -> (tensor<2xf32> {graph.primal = 0}, tensor<3xf32> {graph.cotangent = 0}) {
  return %x, %y : tensor<2xf32>, tensor<3xf32>
}

// -----

// Every op without gradient on the way is named at once, with its node; the one
// that no parameter needs is not.
graph.source @w : tensor<2xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
func.func @micro(%x: tensor<2xf32>, %g: tensor<2xf32>, %p: tensor<2xf32> {graph.state = @p})
    -> (tensor<2xf32> {graph.primal = 0}, tensor<2xf32> {graph.cotangent = 0}) {
  %0 = graph.gelu_grad %x, %x {form = #graph.gelu_form<tanh>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // expected-error@below {{'graph.gelu_grad' op has no gradient, but a parameter needs one through it; express it by ops that have one}}
  %1 = graph.gelu_grad %0, %p {form = #graph.gelu_form<tanh>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // expected-error@below {{'func.call' op has no gradient}}
  %2 = func.call @other(%p) : (tensor<2xf32>) -> tensor<2xf32>
  %3 = graph.add %1, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3, %g : tensor<2xf32>, tensor<2xf32>
}
func.func private @other(tensor<2xf32>) -> tensor<2xf32>

// -----

graph.source @w : tensor<2xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
graph.state @q : tensor<2xf32> parameter views [#graph.view<@w, 0, [1]>]
// expected-warning@+2 {{the loss does not depend on parameter @q; its gradient stays zero}}
func.func @micro(%g: tensor<2xf32>, %p: tensor<2xf32> {graph.state = @p},
                 %q: tensor<2xf32> {graph.state = @q})
    -> (tensor<2xf32> {graph.primal = 0}, tensor<2xf32> {graph.cotangent = 0}) {
  return %p, %g : tensor<2xf32>, tensor<2xf32>
}

// -----

// The node is named, in the body of a repeat too.
graph.source @w : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<2x2xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 2, [1]>]
// expected-error@unknown {{has no gradient, but a parameter needs one through it (node "h.1/Gelu")}}
// expected-error@unknown {{has no gradient, but a parameter needs one through it (node "h.0/Gelu", "h.0/Mul")}}
func.func @micro(%x: tensor<2xf32>, %g: tensor<2xf32>, %p: tensor<2x2xf32> {graph.state = @p})
    -> (tensor<2xf32> {graph.primal = 0}, tensor<2xf32> {graph.cotangent = 0}) {
  %h = graph.repeat 2 carried(%x : tensor<2xf32>) stacked(%p : tensor<2x2xf32>) captured() -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>, %w: tensor<2xf32>):
    %0 = graph.gelu_grad %a, %w {form = #graph.gelu_form<tanh>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc(fused["h.0/Gelu", "h.0/Mul"])
    %1 = graph.add %0, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %2 = graph.gelu_grad %1, %w {form = #graph.gelu_form<tanh>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("h.1/Gelu")
    %3 = graph.add %0, %2 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    graph.yield %3 : tensor<2xf32>
  }
  return %h, %g : tensor<2xf32>, tensor<2xf32>
}
