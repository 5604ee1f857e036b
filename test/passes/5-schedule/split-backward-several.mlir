// RUN: llmc-opt %s --split-input-file --llmc-split-backward | FileCheck %s

// Leaves the sum of the gradients of a shared parameter to the weight gradients where these read it before they
// add it: backward neither carries it nor reads what it is made of.
// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: (%[[D:arg[0-9]*]]: tensor<8xf32> {parallel.boundary = 0 : i64})
// CHECK: graph.repeat 2 reverse carried(%[[D]] : tensor<8xf32>) stacked() captured() -> tensor<8xf32> stacking tensor<2x8xf32>
// CHECK-NOT: graph.add
// CHECK-LABEL: func.func @weight_1
// CHECK: %[[ZERO:.*]] = graph.constant dense<0.0
// CHECK: graph.repeat 2 reverse carried(%[[ZERO]] : tensor<8xf32>)
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  graph.source @s : tensor<8xf32> {init = #graph.init_kind<zeros>}
  graph.state @e : tensor<8xf32> parameter views [#graph.view<@s, 0, [1]>] {parallel.stages = [1]}
  graph.state @h : tensor<8xf32> accumulator of @e {parallel.stages = [1]}
  func.func @forward_1(%x: tensor<8xf32> {parallel.boundary = 0 : i64}) -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<8xf32> {parallel.residual = 2 : i64}) attributes {parallel.procedure = "forward", parallel.stage = 1 : i64} {
    return %x, %x : tensor<8xf32>, tensor<8xf32>
  }
  func.func @backward_1(%x: tensor<8xf32> {parallel.residual = 2 : i64}, %h: tensor<8xf32> {graph.state = @h}, %d: tensor<8xf32> {parallel.boundary = 0 : i64})
      -> (tensor<8xf32> {graph.state = @h}, tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.procedure = "backward", parallel.stage = 1 : i64} {
    %zero = graph.constant dense<0.0> : tensor<8xf32>
    %sum, %dx = graph.repeat 2 reverse carried(%zero, %d : tensor<8xf32>, tensor<8xf32>) stacked() captured(%x : tensor<8xf32>) -> tensor<8xf32>, tensor<8xf32> {
    ^bb0(%si: tensor<8xf32>, %c: tensor<8xf32>, %xi: tensor<8xf32>):
      %e = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
      %p = graph.mul %e, %xi : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %a = graph.add %si, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      graph.yield %a, %e : tensor<8xf32>, tensor<8xf32>
    }
    %all = graph.mul %sum, %d : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %new = graph.add %h, %all : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %new, %dx : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// Carries no cotangent from one repeat to the next in the weight gradients, which have those that they read from
// backward: no message enters them, and nothing of backward is done again.
// CHECK-LABEL: func.func @weight_1
// CHECK-NOT: parallel.boundary
// CHECK: graph.repeat 2 reverse carried() stacked(
// CHECK-NOT: graph.exp
// CHECK: graph.repeat 2 reverse carried() stacked(
// CHECK-NOT: graph.exp
// CHECK: return
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  graph.source @s : tensor<4x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @v : tensor<2x8xf32> parameter stacked views [#graph.view<@s, 0, [1]>, #graph.view<@s, 8, [1]>] {parallel.stages = [1]}
  graph.state @w : tensor<2x8xf32> parameter stacked views [#graph.view<@s, 16, [1]>, #graph.view<@s, 24, [1]>] {parallel.stages = [1]}
  graph.state @gv : tensor<2x8xf32> accumulator stacked of @v {parallel.stages = [1]}
  graph.state @gw : tensor<2x8xf32> accumulator stacked of @w {parallel.stages = [1]}
  func.func @forward_1(%x: tensor<8xf32> {parallel.boundary = 0 : i64}) -> (tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.procedure = "forward", parallel.stage = 1 : i64} {
    return %x : tensor<8xf32>
  }
  func.func @backward_1(%gv: tensor<2x8xf32> {graph.state = @gv}, %gw: tensor<2x8xf32> {graph.state = @gw}, %d: tensor<8xf32> {parallel.boundary = 0 : i64})
      -> (tensor<2x8xf32> {graph.state = @gv}, tensor<2x8xf32> {graph.state = @gw}, tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.procedure = "backward", parallel.stage = 1 : i64} {
    %dh, %nw = graph.repeat 2 reverse carried(%d : tensor<8xf32>) stacked(%gw : tensor<2x8xf32>) captured() -> tensor<8xf32> stacking tensor<2x8xf32> {
    ^bb0(%c: tensor<8xf32>, %gi: tensor<8xf32>):
      %a = graph.add %gi, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %e = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
      graph.yield %e, %a : tensor<8xf32>, tensor<8xf32>
    }
    %dx, %nv = graph.repeat 2 reverse carried(%dh : tensor<8xf32>) stacked(%gv : tensor<2x8xf32>) captured() -> tensor<8xf32> stacking tensor<2x8xf32> {
    ^bb0(%c: tensor<8xf32>, %gi: tensor<8xf32>):
      %a = graph.add %gi, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %e = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
      graph.yield %e, %a : tensor<8xf32>, tensor<8xf32>
    }
    return %nv, %nw, %dx : tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>
  }
}
