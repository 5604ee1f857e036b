// RUN: llmc-opt %s -split-input-file -verify-diagnostics
// Every rule of every verifier, by its number.

// source C1
// expected-error@+1 {{statically shaped}}
graph.source @a : tensor<?xf32> {init = #graph.init_kind<ones>}

// -----

// source C2
// expected-error@+1 {{C2: only one of file and file_offset is given}}
graph.source @a : tensor<4xf32> {file = 0, init = #graph.init_kind<ones>}

// -----

// source C2
// expected-error@+1 {{C2: file and file_offset are -1 and 0}}
graph.source @a : tensor<4xf32> {file = -1, file_offset = 0, init = #graph.init_kind<ones>}

// -----

// source C3
// expected-error@+1 {{C3: a normal init has no init_std above 0}}
graph.source @a : tensor<4xf32> {init = #graph.init_kind<normal>, init_std = 0.0}

// -----

// state C1
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{statically shaped}}
graph.state @s : tensor<?xf32> parameter views [#graph.view<@a, 0, [1]>]

// -----

// state C2
// expected-error@+1 {{C2: there are 0 views, expected 1}}
graph.state @s : tensor<4xf32> parameter

// -----

// state C2
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C2: there are 1 views, expected 2, one for each leading index}}
graph.state @s : tensor<2x4xf32> parameter stacked views [#graph.view<@a, 0, [1]>]

// -----

// state C2
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C2: a scalar is stacked}}
graph.state @s : tensor<f32> parameter stacked views [#graph.view<@a, 0, []>]

// -----

// state C2: a view for each of 2 layers of 3 experts, or for each layer
graph.source @a : tensor<24xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C2: there are 3 views, expected 2, one for each leading index}}
graph.state @s : tensor<2x3x4xf32> parameter stacked views [#graph.view<@a, 0, [1]>, #graph.view<@a, 4, [1]>, #graph.view<@a, 8, [1]>]

// -----

// state C3
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C3: a view has 1 strides, expected 2}}
graph.state @s : tensor<2x4xf32> parameter views [#graph.view<@a, 0, [1]>]

// -----

// state C3
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C3: a view has 2 strides, expected 1, one for each unstacked dimension}}
graph.state @s : tensor<2x4xf32> parameter stacked views [#graph.view<@a, 0, [4, 1]>, #graph.view<@a, 0, [4, 1]>]

// -----

// state C3
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C3: a view reads elements 1 to 8 of @a, which has 8}}
graph.state @s : tensor<2x4xf32> parameter views [#graph.view<@a, 1, [4, 1]>]

// -----

// state C3
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C3: a view reads elements -1 to 6 of @a, which has 8}}
graph.state @s : tensor<2x4xf32> parameter views [#graph.view<@a, 3, [-4, 1]>]

// -----

// state C3
// expected-error@+1 {{C3: @a is no graph.source}}
graph.state @s : tensor<4xf32> parameter views [#graph.view<@a, 0, [1]>]

// -----

// state C4
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
graph.state @p : tensor<2x4xf32> parameter views [#graph.view<@a, 0, [4, 1]>]
// expected-error@+1 {{C4: a moment1 has views}}
graph.state @s : tensor<2x4xf32> moment1 of @p views [#graph.view<@a, 0, [4, 1]>]

// -----

// state C4
// expected-error@+1 {{C4: a moment1 has no of}}
graph.state @s : tensor<2x4xf32> moment1

// -----

// state C4
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C4: @a is no graph.state of role parameter}}
graph.state @s : tensor<2x4xf32> moment2 of @a

// -----

// state C4
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C4: a parameter has of, expected views only}}
graph.state @s : tensor<2x4xf32> parameter of @s views [#graph.view<@a, 0, [4, 1]>]

// -----

// state C5
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C5: valid_shape is [2, 5], expected a part of [2, 4]}}
graph.state @s : tensor<2x4xf32> parameter views [#graph.view<@a, 0, [4, 1]>] {valid_shape = [2, 5]}

// -----

// state C5
graph.source @a : tensor<2x4xf32> {init = #graph.init_kind<ones>}
// expected-error@+1 {{C5: valid_shape is [2], expected a part of [2, 4]}}
graph.state @s : tensor<2x4xf32> parameter views [#graph.view<@a, 0, [4, 1]>] {valid_shape = [2]}

// -----

// repeat C1
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C1: count is 0, expected 1 or more}}
  %h = graph.repeat 0 carried(%x : tensor<4xf32>) stacked() captured() -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

// repeat C2
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C2: stacked operand 0 has shape [3, 4], expected leading dimension 2}}
  %h = graph.repeat 2 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

// repeat C2
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C2: stacked result 0 has shape [2, 4], expected leading dimension 3}}
  %h, %r = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<4xf32> stacking tensor<2x4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield %a, %b : tensor<4xf32>, tensor<4xf32>
  }
  return
}

// -----

// repeat C3
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C3: there are 1 body arguments, expected 2}}
  %h = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

// repeat C3
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C3: body argument 1 has type 'tensor<3x4xf32>', expected 'tensor<4xf32>'}}
  %h = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<3x4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

// repeat C4
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C4: there are 0 yielded values, expected 1}}
  %h = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield
  }
  return
}

// -----

// repeat C4
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C4: yielded value 1 has type 'tensor<4xf32>', expected 'tensor<5xf32>'}}
  %h, %r = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<4xf32> stacking tensor<3x5xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield %a, %b : tensor<4xf32>, tensor<4xf32>
  }
  return
}

// -----

// repeat C4
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C4: the body ends in func.return, expected graph.yield}}
  %h = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    "func.return"() : () -> ()
  }
  return
}

// -----

// repeat C5
func.func @f(%x: tensor<4xf32>, %w: tensor<3x4xf32>) {
  // expected-error@+1 {{C5: carried results have other types than the carried operands}}
  %h = graph.repeat 3 carried(%x : tensor<4xf32>) stacked(%w : tensor<3x4xf32>) captured() -> tensor<5xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

// elementwise C1
func.func @f(%x: tensor<2x4xf32>, %y: tensor<3xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{C1: operand 1 of shape [3] does not broadcast with [2, 4]}}
  %0 = graph.add %x, %y : (tensor<2x4xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// elementwise C1, the result
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{are incompatible with return type}}
  %0 = graph.add %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x2xf32>
  return
}

// -----

// elementwise C2
func.func @f(%x: tensor<2x4xf32>, %y: tensor<4xf64>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{C2: operand 1 has element type 'f64', expected 'f32'}}
  %0 = graph.mul %x, %y : (tensor<2x4xf32>, tensor<4xf64>) -> tensor<2x4xf32>
  return
}

// -----

// elementwise C2, the result
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{are incompatible with return type}}
  %0 = graph.neg %x : (tensor<2x4xf32>) -> tensor<2x4xf64>
  return
}

// -----

// elementwise C3
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C3: operand 0 has element type 'f32', expected i1}}
  %0 = graph.and %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// elementwise C3
func.func @f(%x: tensor<2x4xi32>) {
  // expected-error@+1 {{C3: operand 0 has element type 'i32', expected i1}}
  %0 = graph.not %x : (tensor<2x4xi32>) -> tensor<2x4xi32>
  return
}

// -----

// elementwise C3
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C3: operand 0 has element type 'f32', expected i1}}
  %0 = graph.select %x, %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// cast C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: result shape is [8], expected [2, 4]}}
  %0 = graph.cast %x : (tensor<2x4xf32>) -> tensor<8xf64>
  return
}

// -----

// constant C1
func.func @f() {
  // expected-error@+1 {{C1: value is not dense}}
  %0 = graph.constant sparse<0, 1.0> : tensor<4xf32>
  return
}

// -----

// iota C1
func.func @f() {
  // expected-error@+1 {{C1: dim is 1, expected 0 or more and less than the rank 1}}
  %0 = graph.iota {dim = 1} : () -> tensor<4xi64>
  return
}

// -----

// iota C1
func.func @f() {
  // expected-error@+1 {{C1: dim is -1, expected 0 or more and less than the rank 1}}
  %0 = graph.iota {dim = -1} : () -> tensor<4xi64>
  return
}

// -----

// reshape C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: result has 9 elements, expected 8}}
  %0 = graph.reshape %x : (tensor<2x4xf32>) -> tensor<9xf32>
  return
}

// -----

// reshape C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: result has element type 'f64', expected 'f32'}}
  %0 = graph.reshape %x : (tensor<2x4xf32>) -> tensor<8xf64>
  return
}

// -----

// transpose C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: permutation has 1 entries, expected one for each of the 2 dimensions}}
  %0 = graph.transpose %x {permutation = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// transpose C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: permutation [1, 1] does not name every dimension once}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// transpose C3
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C3: result shape is [2, 4], expected [4, 2]}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// transpose C4
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C4: result has element type 'f64', expected 'f32'}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf64>
  return
}

// -----

// broadcast C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: operand of shape [2, 4] does not broadcast to [3, 4]}}
  %0 = graph.broadcast %x : (tensor<2x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

// broadcast C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: operand of shape [2, 4] does not broadcast to [1, 4]}}
  %0 = graph.broadcast %x : (tensor<2x4xf32>) -> tensor<1x4xf32>
  return
}

// -----

// broadcast C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: result has element type 'f64', expected 'f32'}}
  %0 = graph.broadcast %x : (tensor<2x4xf32>) -> tensor<2x4xf64>
  return
}

// -----

// slice C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: starts has 1 entries}}
  %0 = graph.slice %x {starts = array<i64: 0>, limits = array<i64: 2, 4>, steps = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// slice C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: limits has 1 entries}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2>, steps = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// slice C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: steps has 1 entries}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, steps = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// slice C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: dimension 1 has start 0, limit 5 and step 1, expected 0 <= start <= limit <= 4}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 5>, steps = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x5xf32>
  return
}

// -----

// slice C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: dimension 1 has start 0, limit 4 and step 0}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, steps = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// slice C3
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C3: result shape is [2, 3], expected [2, 2]}}
  %0 = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 2, 4>, steps = array<i64: 1, 2>} : (tensor<2x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

// slice C4
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C4: result has element type 'f64', expected 'f32'}}
  %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 2, 4>, steps = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x4xf64>
  return
}

// -----

// pad C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: low has 1 entries}}
  %0 = graph.pad %x {low = array<i64: 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// pad C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: high has 1 entries}}
  %0 = graph.pad %x {low = array<i64: 0, 0>, high = array<i64: 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// pad C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: interior has 1 entries}}
  %0 = graph.pad %x {low = array<i64: 0, 0>, high = array<i64: 0, 0>, interior = array<i64: 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// pad C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: dimension 1 has low -1, high 0 and interior 0, expected none below 0}}
  %0 = graph.pad %x {low = array<i64: 0, -1>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x3xf32>
  return
}

// -----

// pad C3
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C3: result shape is [2, 8], expected [2, 9]}}
  %0 = graph.pad %x {low = array<i64: 0, 1>, high = array<i64: 0, 1>, interior = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<2x8xf32>
  return
}

// -----

// pad C4
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C4: result has element type 'f64', expected 'f32'}}
  %0 = graph.pad %x {low = array<i64: 0, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x4xf64>
  return
}

// -----

// concat C1
func.func @f() {
  // expected-error@+1 {{C1: there are no operands, expected at least one}}
  %0 = graph.concat {dim = 0} : () -> tensor<2xf32>
  return
}

// -----

// concat C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: dim is 2, expected less than the rank 2}}
  %0 = graph.concat %x {dim = 2} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// concat C3
func.func @f(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>) {
  // expected-error@+1 {{C3: operand 1 has shape [2, 3], which differs from operand 0's outside dimension 0}}
  %0 = graph.concat %x, %y {dim = 0} : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<4x4xf32>
  return
}

// -----

// concat C3
func.func @f(%x: tensor<2x4xf32>, %y: tensor<2xf32>) {
  // expected-error@+1 {{C3: operand 1 has shape [2], which differs}}
  %0 = graph.concat %x, %y {dim = 0} : (tensor<2x4xf32>, tensor<2xf32>) -> tensor<4x4xf32>
  return
}

// -----

// concat C4
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C4: result shape is [5, 4], expected [4, 4]}}
  %0 = graph.concat %x, %x {dim = 0} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<5x4xf32>
  return
}

// -----

// concat C5
func.func @f(%x: tensor<2x4xf32>, %y: tensor<2x4xf64>) {
  // expected-error@+1 {{C5: result has element type 'f32', expected 'f64'}}
  %0 = graph.concat %x, %y {dim = 0} : (tensor<2x4xf32>, tensor<2x4xf64>) -> tensor<4x4xf32>
  return
}

// -----

// gather C1
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C1: table is a scalar}}
  %0 = graph.gather %s, %i : (tensor<f32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

// gather C2
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C2: result has shape [4, 2], expected [2, 4]}}
  %0 = graph.gather %t, %i : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return
}

// -----

// gather C3
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C3: result has element type 'f64', expected 'f32'}}
  %0 = graph.gather %t, %i : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf64>
  return
}

// -----

// gather: ids are integers
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{operand #1 must be statically shaped tensor of signless integer values}}
  %0 = graph.gather %t, %v : (tensor<5x4xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return
}

// -----

// scatter_add C1
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C1: result is a scalar}}
  %0 = graph.scatter_add %i, %v : (tensor<2xi64>, tensor<2xf32>) -> tensor<f32>
  return
}

// -----

// scatter_add C2
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C2: updates has shape [2, 4], expected [2, 3]}}
  %0 = graph.scatter_add %i, %u : (tensor<2xi64>, tensor<2x4xf32>) -> tensor<5x3xf32>
  return
}

// -----

// scatter_add C3
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C3: result has element type 'i64', expected 'f32'}}
  %0 = graph.scatter_add %i, %u : (tensor<2xi64>, tensor<2x4xf32>) -> tensor<5x4xi64>
  return
}

// -----

// take_along C1
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C1: operand is a scalar}}
  %0 = graph.take_along %s, %i : (tensor<f32>, tensor<2xi64>) -> tensor<f32>
  return
}

// -----

// take_along C2
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C2: ids has shape [2], expected [5]}}
  %0 = graph.take_along %t, %i : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<5xf32>
  return
}

// -----

// take_along C3
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C3: result has shape [4], expected [2]}}
  %0 = graph.take_along %u, %i : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

// take_along C4
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C4: result has element type 'f64', expected 'f32'}}
  %0 = graph.take_along %u, %i : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<2xf64>
  return
}

// -----

// one_hot C1
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C1: result is a scalar}}
  %0 = graph.one_hot %i, %v : (tensor<2xi64>, tensor<2xf32>) -> tensor<f32>
  return
}

// -----

// one_hot C2
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C2: ids has shape [2], expected [3]}}
  %0 = graph.one_hot %i, %v : (tensor<2xi64>, tensor<2xf32>) -> tensor<3x4xf32>
  return
}

// -----

// one_hot C3
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C3: values has shape [2, 4], expected [2]}}
  %0 = graph.one_hot %i, %u : (tensor<2xi64>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// one_hot C4
func.func @f(%t: tensor<5x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>, %v: tensor<2xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{C4: result has element type 'f64', expected 'f32'}}
  %0 = graph.one_hot %i, %v : (tensor<2xi64>, tensor<2xf32>) -> tensor<2x4xf64>
  return
}

// -----

// mask_tail C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: dim is 2, expected less than the rank 2}}
  %0 = graph.mask_tail %x {dim = 2, valid = 1, value = 0.0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// mask_tail C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: valid is -1, expected 0 or more}}
  %0 = graph.mask_tail %x {dim = 0, valid = -1, value = 0.0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// mask_tail C3
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C3: result type is 'tensor<2x4xf64>', expected 'tensor<2x4xf32>'}}
  %0 = graph.mask_tail %x {dim = 0, valid = 1, value = 0.0} : (tensor<2x4xf32>) -> tensor<2x4xf64>
  return
}

// -----

// cumsum C1
func.func @f(%a0: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: dim is 2, expected less than the rank 2}}
  %r0 = graph.cumsum %a0 {dim = 2} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

// cumsum C2
func.func @f(%a0: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: result type is 'tensor<4xf32>', expected 'tensor<2x4xf32>', the operand's}}
  %r0 = graph.cumsum %a0 {dim = 0} : (tensor<2x4xf32>) -> tensor<4xf32>
  return
}

// -----

// reduce C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: dims are [2], expected distinct dimensions of a tensor of rank 2}}
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 2>} : (tensor<2x4xf32>) -> tensor<2xf32>
  return
}

// -----

// reduce C1
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C1: dims are [1, 1]}}
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  return
}

// -----

// reduce C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: result shape is [4], expected [2]}}
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<4xf32>
  return
}

// -----

// reduce C3
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C3: result has element type 'i32', expected 'f32'}}
  %0 = graph.reduce %x {kind = #graph.reduce_kind<sum>, dims = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xi32>
  return
}

// -----

// softmax C1
func.func @f(%s: tensor<f32>) {
  // expected-error@+1 {{C1: operand is a scalar}}
  %0 = graph.softmax %s : (tensor<f32>) -> tensor<f32>
  return
}

// -----

// softmax C2
func.func @f(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{C2: operand 0 has shape [2, 4], expected the result's, [4, 2]}}
  %0 = graph.softmax %x : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return
}

// -----

// softmax_grad C1
func.func @f(%s: tensor<f32>) {
  // expected-error@+1 {{C1: operand is a scalar}}
  %0 = graph.softmax_grad %s, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

// softmax_grad C2
func.func @f(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>) {
  // expected-error@+1 {{C2: operand 1 has shape [2, 3]}}
  %0 = graph.softmax_grad %x, %y : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// matmul C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C1: equation "ab,bc" does not parse}}
  %0 = graph.matmul "ab,bc" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// matmul C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{does not parse, expected letters,letters->letters}}
  %0 = graph.matmul "a1,bc->ac" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// matmul C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C1: the equation gives the lhs 3 dimensions, expected 2}}
  %0 = graph.matmul "abd,bc->ac" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

// matmul C2
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C2: letter a has size 4 in the rhs, expected 2}}
  %0 = graph.matmul "ab,ac->bc" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

// matmul C2
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C2: letter c has size 4 in the result, expected 3}}
  %0 = graph.matmul "ab,bc->ac" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// matmul C3
func.func @f(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C3: letter a stands twice in the lhs}}
  %0 = graph.matmul "aa,ac->ac" %x, %w : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

// matmul C4
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C4: result letter d stands in no operand}}
  %0 = graph.matmul "ab,bc->acd" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3x5xf32>
  return
}

// -----

// matmul C5
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C5: letter a stands in one operand only}}
  %0 = graph.matmul "ab,bc->c" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<3xf32>
  return
}

// -----

// matmul C5
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) {
  // expected-error@+1 {{C5: letter c stands in one operand only}}
  %0 = graph.matmul "ab,bc->a" %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2xf32>
  return
}

// -----

// matmul C6
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3xbf16>) {
  // expected-error@+1 {{C6: operands have element types 'f32' and 'bf16', expected one}}
  %0 = graph.matmul "ab,bc->ac" %x, %w : (tensor<2x4xf32>, tensor<4x3xbf16>) -> tensor<2x3xf32>
  return
}

// -----

// layer_norm C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C1: scale has shape [3], expected [4]}}
  %y, %p, %q = graph.layer_norm %x, %b, %w {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<3xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// layer_norm C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C1: bias has shape [3], expected [4]}}
  %y, %p, %q = graph.layer_norm %x, %w, %b {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>, tensor<3xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// layer_norm C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C1: x is a scalar}}
  %y, %p, %q = graph.layer_norm %s, %w, %w {eps = 1.0e-5} : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

// layer_norm C2
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C2: eps is 0.000000e+00, expected more than 0}}
  %y, %p, %q = graph.layer_norm %x, %w, %w {eps = 0.0} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// layer_norm C3
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C3: y has type 'tensor<2x4xf64>', expected x's}}
  %y, %p, %q = graph.layer_norm %x, %w, %w {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf64>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

// layer_norm C3
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C3: mean has shape [4], expected [2]}}
  %y, %p, %q = graph.layer_norm %x, %w, %w {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>)
  return
}

// -----

// layer_norm C3
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C3: rstd has shape [4], expected [2]}}
  %y, %p, %q = graph.layer_norm %x, %w, %w {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<4xf32>)
  return
}

// -----

// layer_norm_grad C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C1: scale has shape [3], expected [4]}}
  %0 = graph.layer_norm_grad %x, %x, %b, %m, %m : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return
}

// -----

// layer_norm_grad C2
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C2: cotangent has type 'tensor<2x4xf64>', expected x's}}
  %0 = graph.layer_norm_grad %d, %x, %w, %m, %m : (tensor<2x4xf64>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return
}

// -----

// layer_norm_grad C2
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C2: result has type 'tensor<2x4xf64>', expected x's}}
  %0 = graph.layer_norm_grad %x, %x, %w, %m, %m : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x4xf64>
  return
}

// -----

// layer_norm_grad C3
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C3: mean has shape [3], expected [2]}}
  %0 = graph.layer_norm_grad %x, %x, %w, %b, %m : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return
}

// -----

// layer_norm_grad C3
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C3: rstd has shape [3], expected [2]}}
  %0 = graph.layer_norm_grad %x, %x, %w, %m, %b : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// layer_norm_grad_scale C1
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C1: result has shape [2], expected [4]}}
  %0 = graph.layer_norm_grad_scale %x, %x, %m, %m : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// layer_norm_grad_scale C2
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C2: cotangent has type 'tensor<2x4xf64>', expected x's}}
  %0 = graph.layer_norm_grad_scale %d, %x, %m, %m : (tensor<2x4xf64>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// layer_norm_grad_scale C3
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C3: mean has shape [3], expected [2]}}
  %0 = graph.layer_norm_grad_scale %x, %x, %b, %m : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// layer_norm_grad_scale C3
func.func @f(%x: tensor<2x4xf32>, %w: tensor<4xf32>, %m: tensor<2xf32>, %b: tensor<3xf32>, %s: tensor<f32>, %d: tensor<2x4xf64>) {
  // expected-error@+1 {{C3: rstd has shape [3], expected [2]}}
  %0 = graph.layer_norm_grad_scale %x, %x, %m, %b : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

// rms_norm C1
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<3xf32>) {
  // expected-error@+1 {{C1: scale has shape [3], expected [4]}}
  %r0, %r1 = graph.rms_norm %a0, %a1 {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<3xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  return
}

// -----

// rms_norm C1
func.func @f(%a0: tensor<f32>, %a1: tensor<4xf32>) {
  // expected-error@+1 {{C1: x is a scalar, expected a last dimension}}
  %r0, %r1 = graph.rms_norm %a0, %a1 {eps = 1.0e-5} : (tensor<f32>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

// rms_norm C2
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<4xf32>) {
  // expected-error@+1 {{C2: eps is -1.000000e+00, expected 0 or more}}
  %r0, %r1 = graph.rms_norm %a0, %a1 {eps = -1.0} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  return
}

// -----

// rms_norm C3
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<4xf32>) {
  // expected-error@+1 {{C3: y has type 'tensor<2x4xf64>', expected x's, 'tensor<2x4xf32>'}}
  %r0, %r1 = graph.rms_norm %a0, %a1 {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf64>, tensor<2xf32>)
  return
}

// -----

// rms_norm C3
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<4xf32>) {
  // expected-error@+1 {{C3: rstd has shape [4], expected [2]}}
  %r0, %r1 = graph.rms_norm %a0, %a1 {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
  return
}

// -----

// rms_norm_grad C1
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<3xf32>, %a3: tensor<2xf32>) {
  // expected-error@+1 {{C1: scale has shape [3], expected [4]}}
  %r0 = graph.rms_norm_grad %a0, %a1, %a2, %a3 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return
}

// -----

// rms_norm_grad C2
func.func @f(%a0: tensor<2x4xf64>, %a1: tensor<2x4xf32>, %a2: tensor<4xf32>, %a3: tensor<2xf32>) {
  // expected-error@+1 {{C2: cotangent has type 'tensor<2x4xf64>', expected x's, 'tensor<2x4xf32>'}}
  %r0 = graph.rms_norm_grad %a0, %a1, %a2, %a3 : (tensor<2x4xf64>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return
}

// -----

// rms_norm_grad C2
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<4xf32>, %a3: tensor<2xf32>) {
  // expected-error@+1 {{C2: result has type 'tensor<2x4xf64>', expected x's, 'tensor<2x4xf32>'}}
  %r0 = graph.rms_norm_grad %a0, %a1, %a2, %a3 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>) -> tensor<2x4xf64>
  return
}

// -----

// rms_norm_grad C3
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<4xf32>, %a3: tensor<3xf32>) {
  // expected-error@+1 {{C3: rstd has shape [3], expected [2]}}
  %r0 = graph.rms_norm_grad %a0, %a1, %a2, %a3 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

// rms_norm_grad_scale C1
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<2xf32>) {
  // expected-error@+1 {{C1: result has shape [2], expected [4]}}
  %r0 = graph.rms_norm_grad_scale %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// rms_norm_grad_scale C2
func.func @f(%a0: tensor<2x4xf64>, %a1: tensor<2x4xf32>, %a2: tensor<2xf32>) {
  // expected-error@+1 {{C2: cotangent has type 'tensor<2x4xf64>', expected x's, 'tensor<2x4xf32>'}}
  %r0 = graph.rms_norm_grad_scale %a0, %a1, %a2 : (tensor<2x4xf64>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// rms_norm_grad_scale C3
func.func @f(%a0: tensor<2x4xf32>, %a1: tensor<2x4xf32>, %a2: tensor<3xf32>) {
  // expected-error@+1 {{C3: rstd has shape [3], expected [2]}}
  %r0 = graph.rms_norm_grad_scale %a0, %a1, %a2 : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

// attention C1
func.func @f(%q: tensor<3x4x2xf32>, %k: tensor<3x2x2xf32>, %v: tensor<3x2x2xf32>) {
  // expected-error@+1 {{C1: q and k have ranks 3 and 3, expected 4}}
  %0, %1 = graph.attention %q, %k, %v {scale = 1.0, causal = false} : (tensor<3x4x2xf32>, tensor<3x2x2xf32>, tensor<3x2x2xf32>) -> (tensor<3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C1
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<2x3x2x2xf32>, %v: tensor<2x3x2x2xf32>) {
  // expected-error@+1 {{C1: k has shape [2, 3, 2, 2], expected [1, 3, 2, 2]}}
  %0, %1 = graph.attention %q, %k, %v {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<2x3x2x2xf32>, tensor<2x3x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C1
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %v: tensor<1x3x2x5xf32>) {
  // expected-error@+1 {{C1: v has shape [1, 3, 2, 5], expected [1, 3, 2, 2]}}
  %0, %1 = graph.attention %q, %k, %v {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x5xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C1
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %v: tensor<1x3x2x2xf32>) {
  // expected-error@+1 {{C1: o has shape [1, 3, 2, 2], expected [1, 3, 4, 2]}}
  %0, %1 = graph.attention %q, %k, %v {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> (tensor<1x3x2x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C1
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %v: tensor<1x3x2x2xf32>) {
  // expected-error@+1 {{C1: lse has shape [1, 4, 3], expected [1, 3, 4]}}
  %0, %1 = graph.attention %q, %k, %v {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x4x3xf32>)
  return
}

// -----

// attention C2
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x3x2xf32>, %v: tensor<1x3x3x2xf32>) {
  // expected-error@+1 {{C2: 4 heads share 3 kv heads, expected a multiple}}
  %0, %1 = graph.attention %q, %k, %v {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>) {
  // expected-error@+1 {{C3: offset is -1, expected 0 or more}}
  %r0, %r1 = graph.attention %a0, %a1, %a2 {scale = 1.0, causal = true, offset = -1} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>) {
  // expected-error@+1 {{C3: window is 0, expected 1 or more}}
  %r0, %r1 = graph.attention %a0, %a1, %a2 {scale = 1.0, causal = true, window = 0} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>) {
  // expected-error@+1 {{C3: a window is given without causal, expected causal}}
  %r0, %r1 = graph.attention %a0, %a1, %a2 {scale = 1.0, causal = false, window = 2} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>) {
  // expected-error@+1 {{C3: softcap is -1.000000e+00, expected 0 (none) or more}}
  %r0, %r1 = graph.attention %a0, %a1, %a2 {scale = 1.0, causal = true, softcap = -1.0} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C4
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x2x3x5xf32>) {
  // expected-error@+1 {{C4: mask has shape [1, 2, 3, 5], expected [1, 4, 3, 5], of which all but the last may be 1}}
  %r0, %r1 = graph.attention %a0, %a1, %a2, %a3 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x2x3x5xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C4
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x4x3x1xf32>) {
  // expected-error@+1 {{C4: mask has shape [1, 4, 3, 1], expected [1, 4, 3, 5]}}
  %r0, %r1 = graph.attention %a0, %a1, %a2, %a3 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x4x3x1xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C4
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<3x5xf32>) {
  // expected-error@+1 {{C4: mask has shape [3, 5], expected [1, 4, 3, 5]}}
  %r0, %r1 = graph.attention %a0, %a1, %a2, %a3 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<3x5xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C5
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x5x2x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x1x1x5xi64>) {
  // expected-error@+1 {{C5: mask has element type 'i64', expected i1 or a float; compare or cast it}}
  %r0, %r1 = graph.attention %a0, %a1, %a2, %a3 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x1x1x5xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C6
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x5x2x2xf32>, %key: tensor<1xi64>, %l: tensor<i64>, %p: tensor<3xi64>, %h: tensor<4xi64>, %j: tensor<5xi64>) {
  // expected-error@+1 {{C6: draw 3 has type 'tensor<3xi64>', expected i64 of shape [4]}}
  %0, %1 = graph.attention %q, %k, %k, %key, %l, %p, %p, %j {scale = 1.0, causal = false, dropout = 0.1} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1xi64>, tensor<i64>, tensor<3xi64>, tensor<3xi64>, tensor<5xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C6
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x5x2x2xf32>, %key: tensor<1xi64>, %l: tensor<i64>, %p: tensor<3xi64>, %h: tensor<4xi64>, %j: tensor<5xi64>) {
  // expected-error@+1 {{C6: dropout of rate 0.000000e+00 has 5 draws, expected 0}}
  %0, %1 = graph.attention %q, %k, %k, %key, %l, %p, %h, %j {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1xi64>, tensor<i64>, tensor<3xi64>, tensor<4xi64>, tensor<5xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C6
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x5x2x2xf32>) {
  // expected-error@+1 {{C6: dropout of rate 1.000000e-01 has 0 draws, expected 5}}
  %0, %1 = graph.attention %q, %k, %k {scale = 1.0, causal = false, dropout = 0.1} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C6
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x5x2x2xf32>, %key: tensor<1xi64>, %l: tensor<i64>, %p: tensor<3xi64>, %h: tensor<4xi64>, %j: tensor<5xi64>) {
  // expected-error@+1 {{C6: dropout is 1.000000e+00 at place 0, expected a rate}}
  %0, %1 = graph.attention %q, %k, %k, %key, %l, %p, %h, %j {scale = 1.0, causal = false, dropout = 1.0} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1xi64>, tensor<i64>, tensor<3xi64>, tensor<4xi64>, tensor<5xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// dropout C1
func.func @f(%x: tensor<2x3x4xf32>, %key: tensor<2x1x1xi64>, %l: tensor<i64>, %p: tensor<3x1xi64>, %e: tensor<5xi64>) {
  // expected-error@+1 {{C1: operand 4 of shape [5] does not broadcast to [2, 3, 4], the shape of x}}
  %0 = graph.dropout %x, %key, %l, %p, %e {rate = 0.1, place = 0} : (tensor<2x3x4xf32>, tensor<2x1x1xi64>, tensor<i64>, tensor<3x1xi64>, tensor<5xi64>) -> tensor<2x3x4xf32>
  return
}

// -----

// dropout C1
func.func @f(%x: tensor<2x4xf32>, %l: tensor<i64>) {
  // expected-error@+1 {{C1: result type is 'tensor<2x4xbf16>', expected 'tensor<2x4xf32>', that of x}}
  %0 = graph.dropout %x, %l, %l, %l, %l {rate = 0.1, place = 0} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x4xbf16>
  return
}

// -----

// dropout C2
func.func @f(%x: tensor<2x4xf32>, %l: tensor<i64>) {
  // expected-error@+1 {{C2: rate is 1.000000e+00, expected 0 or more and less than 1}}
  %0 = graph.dropout %x, %l, %l, %l, %l {rate = 1.0, place = 0} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
  return
}

// -----

// dropout C3
func.func @f(%x: tensor<2x4xf32>, %l: tensor<i64>) {
  // expected-error@+1 {{C3: place is -1, expected 0 or more and less than 2^32}}
  %0 = graph.dropout %x, %l, %l, %l, %l {rate = 0.5, place = -1} : (tensor<2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2x4xf32>
  return
}

// -----

// attention C7
func.func @attention_positions_type(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %p: tensor<4xi64>, %j: tensor<3xi64>) {
  // expected-error @+1 {{C7: positions have type 'tensor<4xi64>', expected i64 of shape [3]}}
  %0, %1 = graph.attention %q, %k, %k, %p, %j {scale = 1.0, causal = true} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<4xi64>, tensor<3xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C7
func.func @attention_positions_causal(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %p: tensor<3xi64>) {
  // expected-error @+1 {{C7: positions are given without causal}}
  %0, %1 = graph.attention %q, %k, %k, %p, %p {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<3xi64>, tensor<3xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C8
func.func @attention_ring_keys(%q: tensor<1x3x4x2xf32>, %k: tensor<1x5x2x2xf32>) {
  // expected-error @+1 {{C8: a ring has as many keys as rows, got 5 and 3}}
  %0, %1 = graph.attention %q, %k, %k {scale = 1.0, causal = false, ring} : (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C8
func.func @attention_ring_mask(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %m: tensor<1x1x3x3xi1>) {
  // expected-error @+1 {{C8: a ring has a mask of keys alone, got one of 3 rows}}
  %0, %1 = graph.attention %q, %k, %k, %m {scale = 1.0, causal = false, ring} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x1x3x3xi1>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention C8
func.func @attention_ring_positions(%q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>) {
  // expected-error @+1 {{C8: a causal ring has no positions}}
  %0, %1 = graph.attention %q, %k, %k {scale = 1.0, causal = true, ring} : (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4xf32>)
  return
}

// -----

// attention_grad C1
func.func @f(%g: tensor<1x3x2x2xf32>, %q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %v: tensor<1x3x2x2xf32>, %o: tensor<1x3x4x2xf32>, %l: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C1: cotangent has shape [1, 3, 2, 2], expected [1, 3, 4, 2]}}
  %0, %1, %2 = graph.attention_grad %g, %q, %k, %v, %o, %l {scale = 1.0, causal = false} : (tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>)
  return
}

// -----

// attention_grad C1
func.func @f(%g: tensor<1x3x4x2xf32>, %q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %v: tensor<1x3x2x2xf32>, %o: tensor<1x3x4x2xf32>, %l: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C1: dq has shape [1, 3, 2, 2], expected [1, 3, 4, 2]}}
  %0, %1, %2 = graph.attention_grad %g, %q, %k, %v, %o, %l {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>)
  return
}

// -----

// attention_grad C1
func.func @f(%g: tensor<1x3x4x2xf32>, %q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %v: tensor<1x3x2x2xf32>, %o: tensor<1x3x4x2xf32>, %l: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C1: dk has shape [1, 3, 4, 2], expected [1, 3, 2, 2]}}
  %0, %1, %2 = graph.attention_grad %g, %q, %k, %v, %o, %l {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>)
  return
}

// -----

// attention_grad C1
func.func @f(%g: tensor<1x3x4x2xf32>, %q: tensor<1x3x4x2xf32>, %k: tensor<1x3x2x2xf32>, %v: tensor<1x3x2x2xf32>, %o: tensor<1x3x4x2xf32>, %l: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C1: dv has shape [1, 3, 4, 2], expected [1, 3, 2, 2]}}
  %0, %1, %2 = graph.attention_grad %g, %q, %k, %v, %o, %l {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>)
  return
}

// -----

// attention_grad C2
func.func @f(%g: tensor<1x3x4x2xf32>, %q: tensor<1x3x4x2xf32>, %k: tensor<1x3x3x2xf32>, %v: tensor<1x3x3x2xf32>, %o: tensor<1x3x4x2xf32>, %l: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C2: 4 heads share 3 kv heads}}
  %0, %1, %2 = graph.attention_grad %g, %q, %k, %v, %o, %l {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x3x3x2xf32>, tensor<1x3x3x2xf32>)
  return
}

// -----

// attention_grad C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C3: offset is -1, expected 0 or more}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5 {scale = 1.0, causal = true, offset = -1} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// attention_grad C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C3: window is 0, expected 1 or more}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5 {scale = 1.0, causal = true, window = 0} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// attention_grad C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C3: a window is given without causal, expected causal}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5 {scale = 1.0, causal = false, window = 2} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// attention_grad C3
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C3: softcap is -1.000000e+00, expected 0 (none) or more}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5 {scale = 1.0, causal = true, softcap = -1.0} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// attention_grad C4
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>, %a6: tensor<1x2x3x5xf32>) {
  // expected-error@+1 {{C4: mask has shape [1, 2, 3, 5], expected [1, 4, 3, 5], of which all but the last may be 1}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5, %a6 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>, tensor<1x2x3x5xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// attention_grad C4
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>, %a6: tensor<1x4x3x1xf32>) {
  // expected-error@+1 {{C4: mask has shape [1, 4, 3, 1], expected [1, 4, 3, 5]}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5, %a6 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>, tensor<1x4x3x1xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// attention_grad C4
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>, %a6: tensor<3x5xf32>) {
  // expected-error@+1 {{C4: mask has shape [3, 5], expected [1, 4, 3, 5]}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5, %a6 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>, tensor<3x5xf32>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// attention_grad C5
func.func @f(%a0: tensor<1x3x4x2xf32>, %a1: tensor<1x3x4x2xf32>, %a2: tensor<1x5x2x2xf32>, %a3: tensor<1x5x2x2xf32>, %a4: tensor<1x3x4x2xf32>, %a5: tensor<1x3x4xf32>, %a6: tensor<1x1x1x5xi64>) {
  // expected-error@+1 {{C5: mask has element type 'i64', expected i1 or a float; compare or cast it}}
  %r0, %r1, %r2 = graph.attention_grad %a0, %a1, %a2, %a3, %a4, %a5, %a6 {scale = 1.0, causal = false} : (tensor<1x3x4x2xf32>, tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>, tensor<1x3x4x2xf32>, tensor<1x3x4xf32>, tensor<1x1x1x5xi64>) -> (tensor<1x3x4x2xf32>, tensor<1x5x2x2xf32>, tensor<1x5x2x2xf32>)
  return
}

// -----

// rotary C1
func.func @f(%a0: tensor<2x3x4xf32>, %a1: tensor<1x3x2xf32>, %a2: tensor<1x3x2xf32>) {
  // expected-error@+1 {{C1: x, cos and sin have ranks 3, 3 and 3, expected 4, 3 and 3}}
  %r0 = graph.rotary %a0, %a1, %a2 : (tensor<2x3x4xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

// rotary C2
func.func @f(%a0: tensor<2x3x4x6xf32>, %a1: tensor<1x3x2xf32>, %a2: tensor<2x3x2xf32>) {
  // expected-error@+1 {{C2: cos and sin have shapes [1, 3, 2] and [2, 3, 2], expected one shape, of 2 or 1 and 3}}
  %r0 = graph.rotary %a0, %a1, %a2 : (tensor<2x3x4x6xf32>, tensor<1x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

// rotary C2
func.func @f(%a0: tensor<2x3x4x6xf32>, %a1: tensor<1x4x2xf32>, %a2: tensor<1x4x2xf32>) {
  // expected-error@+1 {{C2: cos and sin have shapes [1, 4, 2] and [1, 4, 2], expected one shape, of 2 or 1 and 3}}
  %r0 = graph.rotary %a0, %a1, %a2 : (tensor<2x3x4x6xf32>, tensor<1x4x2xf32>, tensor<1x4x2xf32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

// rotary C3
func.func @f(%a0: tensor<2x3x4x6xf32>, %a1: tensor<1x3x4xf32>, %a2: tensor<1x3x4xf32>) {
  // expected-error@+1 {{C3: cos has 4 pairs, expected 1 to half of x's dim 6}}
  %r0 = graph.rotary %a0, %a1, %a2 : (tensor<2x3x4x6xf32>, tensor<1x3x4xf32>, tensor<1x3x4xf32>) -> tensor<2x3x4x6xf32>
  return
}

// -----

// rotary C4
func.func @f(%a0: tensor<2x3x4x6xf32>, %a1: tensor<1x3x2xf32>, %a2: tensor<1x3x2xf32>) {
  // expected-error@+1 {{C4: result type is 'tensor<2x3x4x4xf32>', expected x's, 'tensor<2x3x4x6xf32>'}}
  %r0 = graph.rotary %a0, %a1, %a2 : (tensor<2x3x4x6xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

// adamw C1
func.func @f(%a0: tensor<4xf32>, %a1: tensor<3xf32>, %a2: tensor<4xf32>, %a3: tensor<4xf32>, %a4: tensor<f32>, %a5: tensor<f32>, %a6: tensor<f32>, %a7: tensor<f32>, %a8: tensor<f32>, %a9: tensor<f32>, %a10: tensor<f32>) {
  // expected-error@+1 {{C1: operand 1 has shape [3], expected the parameter's, [4]}}
  %0, %1, %2 = graph.adamw %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10 {decay = true} : (tensor<4xf32>, tensor<3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// adamw C2
func.func @f(%a0: tensor<4xf32>, %a1: tensor<4xf32>, %a2: tensor<4xf32>, %a3: tensor<4xf32>, %a4: tensor<1xf32>, %a5: tensor<f32>, %a6: tensor<f32>, %a7: tensor<f32>, %a8: tensor<f32>, %a9: tensor<f32>, %a10: tensor<f32>) {
  // expected-error@+1 {{C2: operand 4 has shape [1], expected a scalar}}
  %0, %1, %2 = graph.adamw %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10 {decay = true} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// adamw C3
func.func @f(%a0: tensor<4xf32>, %a1: tensor<4xf32>, %a2: tensor<4xf32>, %a3: tensor<4xf32>, %a4: tensor<f32>, %a5: tensor<f32>, %a6: tensor<f32>, %a7: tensor<f32>, %a8: tensor<f32>, %a9: tensor<f32>, %a10: tensor<f32>) {
  // expected-error@+1 {{C3: new_param has type 'tensor<4xf64>', expected 'tensor<4xf32>'}}
  %0, %1, %2 = graph.adamw %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10 {decay = true} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf64>, tensor<4xf32>, tensor<4xf32>)
  return
}
