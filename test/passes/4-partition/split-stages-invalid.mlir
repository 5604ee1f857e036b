// RUN: llmc-opt %s --llmc-split-stages --split-input-file --verify-diagnostics

// expected-error @+1 {{a step needs @micro, @update and the attribute `parallel.mesh`}}
module {
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
func.func @micro(%x: tensor<4xf32> {graph.input = "x"}) {
  // expected-error @+1 {{S1: `parallel.layers` has one count for each of 2 stages, which sum to 3, got [2, 2]}}
  %h = graph.repeat 3 carried(%x : tensor<4xf32>) stacked() captured() -> tensor<4xf32> attributes {parallel.layers = [2, 2]} {
  ^bb0(%c: tensor<4xf32>):
    graph.yield %c : tensor<4xf32>
  }
  return
}
func.func @update() {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @s : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<4xf32> parameter views [#graph.view<@s, 0, [1]>]
func.func @micro(%x: tensor<4xf32> {graph.state = @w}) {
  %0 = graph.exp %x {parallel.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{S2: stage 0 needs a forward value of stage 1, which runs after it}}
  %1 = graph.neg %0 {parallel.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @update() {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @s : tensor<4xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<4xf32> parameter views [#graph.view<@s, 0, [1]>]
func.func @micro(%x: tensor<4xf32> {graph.state = @w}) {
  %0 = graph.exp %x {parallel.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32> loc("late")
  // expected-error @+1 {{S2: the backward of stage 0 needs a forward value of stage 1 (late)}}
  %1 = graph.neg %0 {graph.backward, parallel.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @update() {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
func.func @micro(%x: tensor<4xf32> {graph.input = "x"}) {
  // expected-error @+1 {{stage 2 is not one of 2}}
  %0 = graph.exp %x {parallel.stage = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
func.func @update() {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
func.func @micro(%x: tensor<4xf32> {graph.input = "x"}) {
  %h, %s = graph.repeat 2 carried(%x : tensor<4xf32>) stacked() captured() -> tensor<4xf32> stacking tensor<2x4xf32> attributes {parallel.layers = [1, 1]} {
  ^bb0(%c: tensor<4xf32>):
    graph.yield %c, %c : tensor<4xf32>, tensor<4xf32>
  }
  // expected-error @+1 {{S3: the stacked result of split layers is used whole: what the layers of several stages make meets in one op; use pp = 1}}
  %0 = graph.exp %s {parallel.stage = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}
func.func @update() {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @w : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<4x4xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 4, [1]>, #graph.view<@w, 8, [1]>, #graph.view<@w, 12, [1]>]
func.func @micro(%x: tensor<4xf32> {graph.input = "x"}, %p: tensor<4x4xf32> {graph.state = @p}) {
  %h = graph.repeat 4 carried(%x : tensor<4xf32>) stacked(%p : tensor<4x4xf32>) captured() -> tensor<4xf32> attributes {parallel.layers = [1, 3]} {
  ^bb0(%c: tensor<4xf32>, %pi: tensor<4xf32>):
    %0 = graph.add %c, %pi : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %0 : tensor<4xf32>
  }
  // expected-error @+1 {{S3: a stacked value is split as [1, 3] and as [2, 2]: layers share weights by groups, and a stage ends inside of a group; use fewer stages, or --stages that end with the groups}}
  %i = graph.repeat 4 carried(%x : tensor<4xf32>) stacked(%p : tensor<4x4xf32>) captured() -> tensor<4xf32> attributes {parallel.layers = [2, 2]} {
  ^bb0(%c: tensor<4xf32>, %pi: tensor<4xf32>):
    %0 = graph.add %c, %pi : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %0 : tensor<4xf32>
  }
  return
}
func.func @update() {
  return
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @w : tensor<8xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<4xf32> parameter views [#graph.view<@w, 0, [1]>]
graph.state @q : tensor<4xf32> parameter views [#graph.view<@w, 4, [1]>]
func.func @micro(%p: tensor<4xf32> {graph.state = @p}, %q: tensor<4xf32> {graph.state = @q}) {
  return
}
func.func @update(%p: tensor<4xf32> {graph.state = @p}, %q: tensor<4xf32> {graph.state = @q}) -> (tensor<4xf32> {graph.state = @p}) {
  // expected-error @+1 {{S4: mixes tensors of the states @p and @q, which may live on different stages}}
  %0 = graph.add %p, %q : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
}

// -----

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1, 1, 1>} {
graph.source @w : tensor<4x4xf32> {init = #graph.init_kind<zeros>}
// expected-error @+1 {{S5: the layers of @p are in several chunks, got [1, 1, 1, 1] of virtual stages; each chunk needs a state of its own}}
graph.state @p : tensor<4x4xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 4, [1]>, #graph.view<@w, 8, [1]>, #graph.view<@w, 12, [1]>]
func.func @micro(%x: tensor<4xf32> {graph.input = "x"}, %p: tensor<4x4xf32> {graph.state = @p}) {
  %h = graph.repeat 4 carried(%x : tensor<4xf32>) stacked(%p : tensor<4x4xf32>) captured() -> tensor<4xf32> attributes {parallel.layers = array<i64: 1, 1, 1, 1>} {
  ^bb0(%c: tensor<4xf32>, %pi: tensor<4xf32>):
    %0 = graph.add %c, %pi : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    graph.yield %0 : tensor<4xf32>
  }
  return
}
func.func @update() {
  return
}
}
