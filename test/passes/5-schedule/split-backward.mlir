// RUN: llmc-opt %s --split-input-file --llmc-split-backward | FileCheck %s

// Leaves to the backward of a middle stage what crosses to the stage before, with the reduction that
// this needs; the weight gradient, with the gather that it alone needs, is computed later. The
// weight gradient reads the layers' inputs, which the forward keeps as residual 0, and what backward has
// made, a stack of residual 1. The reshape of it is done again.
// CHECK-LABEL: func.func @forward_1
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.boundary = 0 : i64}, tensor<2x2x8xf32> {parallel.residual = 0 : i64})
// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: (%[[W:arg[0-9]*]]: tensor<2x8x8xf32> {graph.state = @w, parallel.layers = array<i64: 2, 2>}, %[[D:arg[0-9]*]]: tensor<4x8xf32> {parallel.boundary = 0 : i64})
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.boundary = 0 : i64}, tensor<2x4x8xf32> {parallel.residual = 1 : i64})
// CHECK-SAME: parallel.procedure = "backward", parallel.stage = 1
// CHECK: %[[DX:.*]], %[[T:.*]] = graph.repeat 2 reverse carried(%[[D]] : tensor<4x8xf32>) stacked(%[[W]] : tensor<2x8x8xf32>) captured() -> tensor<4x8xf32> stacking tensor<2x4x8xf32>
// CHECK-NEXT: ^bb0(%[[C:.*]]: tensor<4x8xf32>, %[[WI:.*]]: tensor<8x8xf32>):
// CHECK-NEXT: %[[E:.*]] = graph.exp %[[C]]
// CHECK-NEXT: %[[R:.*]] = graph.reshape %[[E]]
// CHECK-NEXT: %[[P:.*]] = graph.matmul "xbe,de->xbd" %[[R]], %[[WI]]
// CHECK-NEXT: %[[Q:.*]] = graph.reshape %[[P]]
// CHECK-NEXT: %[[S:.*]] = parallel.all_reduce %[[Q]] over ["tp"]
// CHECK-NEXT: graph.yield %[[S]], %[[E]] :
// CHECK: return %[[DX]], %[[T]] :
// CHECK-LABEL: func.func @weight_1
// CHECK-SAME: (%[[X:arg[0-9]*]]: tensor<2x2x8xf32> {parallel.residual = 0 : i64}, %[[G:arg[0-9]*]]: tensor<2x8x8xf32> {graph.state = @g, parallel.layers = array<i64: 2, 2>}, %[[T:arg[0-9]*]]: tensor<2x4x8xf32> {parallel.residual = 1 : i64})
// CHECK-SAME: -> (tensor<2x8x8xf32> {graph.state = @g, parallel.layers = array<i64: 2, 2>})
// CHECK-SAME: parallel.procedure = "weight", parallel.stage = 1
// CHECK: %[[NEW:.*]] = graph.repeat 2 reverse carried() stacked(%[[X]], %[[G]], %[[T]] : tensor<2x2x8xf32>, tensor<2x8x8xf32>, tensor<2x4x8xf32>) captured() stacking tensor<2x8x8xf32>
// CHECK-NEXT: ^bb0(%[[XI:.*]]: tensor<2x8xf32>, %[[GI:.*]]: tensor<8x8xf32>, %[[TI:.*]]: tensor<4x8xf32>):
// CHECK-NEXT: %[[R:.*]] = graph.reshape %[[TI]]
// CHECK-NEXT: %[[A:.*]] = parallel.all_gather %[[XI]] over ["tp"]
// CHECK-NEXT: %[[B:.*]] = graph.reshape %[[A]]
// CHECK-NEXT: %[[DW:.*]] = graph.matmul "xbd,xbe->de" %[[B]], %[[R]]
// CHECK-NEXT: %[[SUM:.*]] = graph.add %[[GI]], %[[DW]]
// CHECK-NEXT: graph.yield %[[SUM]] :
// CHECK: return %[[NEW]] :
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=2]>} {
  graph.source @s : tensor<6x8x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<6x8x8xf32> parameter stacked views [#graph.view<@s, 0, [8, 1]>, #graph.view<@s, 64, [8, 1]>, #graph.view<@s, 128, [8, 1]>, #graph.view<@s, 192, [8, 1]>, #graph.view<@s, 256, [8, 1]>, #graph.view<@s, 320, [8, 1]>] {parallel.stages = [0, 1, 2]}
  graph.state @g : tensor<6x8x8xf32> accumulator stacked of @w {parallel.stages = [0, 1, 2]}
  func.func @forward_1(%x: tensor<4x8xf32> {parallel.boundary = 0 : i64}, %k: tensor<2x2x8xf32> {graph.input = "k"}) -> (tensor<4x8xf32> {parallel.boundary = 0 : i64}, tensor<2x2x8xf32> {parallel.residual = 0 : i64})
      attributes {parallel.procedure = "forward", parallel.stage = 1 : i64} {
    return %x, %k : tensor<4x8xf32>, tensor<2x2x8xf32>
  }
  func.func @backward_1(%x: tensor<2x2x8xf32> {parallel.residual = 0 : i64}, %w: tensor<2x8x8xf32> {graph.state = @w, parallel.layers = array<i64: 2, 2>},
                        %g: tensor<2x8x8xf32> {graph.state = @g, parallel.layers = array<i64: 2, 2>}, %d: tensor<4x8xf32> {parallel.boundary = 0 : i64})
      -> (tensor<4x8xf32> {parallel.boundary = 0 : i64}, tensor<2x8x8xf32> {graph.state = @g, parallel.layers = array<i64: 2, 2>})
      attributes {parallel.procedure = "backward", parallel.stage = 1 : i64} {
    %dx, %new = graph.repeat 2 reverse carried(%d : tensor<4x8xf32>) stacked(%x, %w, %g : tensor<2x2x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) captured()
        -> tensor<4x8xf32> stacking tensor<2x8x8xf32> {
    ^bb0(%c: tensor<4x8xf32>, %xi: tensor<2x8xf32>, %wi: tensor<8x8xf32>, %gi: tensor<8x8xf32>):
      %e = graph.exp %c : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %r = graph.reshape %e : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
      %a = parallel.all_gather %xi over ["tp"] dim 0 : (tensor<2x8xf32>) -> tensor<4x8xf32>
      %b = graph.reshape %a : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
      %dw = graph.matmul "xbd,xbe->de" %b, %r : (tensor<2x2x8xf32>, tensor<2x2x8xf32>) -> tensor<8x8xf32>
      %sum = graph.add %gi, %dw : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %p = graph.matmul "xbe,de->xbd" %r, %wi : (tensor<2x2x8xf32>, tensor<8x8xf32>) -> tensor<2x2x8xf32>
      %q = graph.reshape %p : (tensor<2x2x8xf32>) -> tensor<4x8xf32>
      %s = parallel.all_reduce %q over ["tp"] {kind = #graph.reduce_kind<sum>} : tensor<4x8xf32>
      graph.yield %s, %sum : tensor<4x8xf32>, tensor<8x8xf32>
    }
    return %dx, %new : tensor<4x8xf32>, tensor<2x8x8xf32>
  }
}

// -----

// Divides the layers of the first stage like the others', though nobody waits for it: what they pass on
// is backward's, and the gradient of what precedes them reads the last of it.
// CHECK-LABEL: func.func @backward_0
// CHECK-SAME: (%[[D:arg[0-9]*]]: tensor<8xf32> {parallel.boundary = 0 : i64})
// CHECK-SAME: -> (tensor<8xf32> {parallel.residual = 0 : i64}, tensor<2x8xf32> {parallel.residual = 1 : i64})
// CHECK: %[[DX:.*]], %[[C:.*]] = graph.repeat 2 reverse carried(%[[D]] : tensor<8xf32>) stacked() captured() -> tensor<8xf32> stacking tensor<2x8xf32>
// CHECK-NEXT: ^bb0(%[[CI:.*]]: tensor<8xf32>):
// CHECK-NEXT: %[[E:.*]] = graph.exp %[[CI]]
// CHECK-NEXT: graph.yield %[[E]], %[[CI]] :
// CHECK: return %[[DX]], %[[C]]
// CHECK-LABEL: func.func @weight_0
// CHECK-SAME: (%[[G:arg[0-9]*]]: tensor<2x8xf32> {graph.state = @g}, %[[H:arg[0-9]*]]: tensor<8xf32> {graph.state = @h}, %[[DX:arg[0-9]*]]: tensor<8xf32> {parallel.residual = 0 : i64}, %[[C:arg[0-9]*]]: tensor<2x8xf32> {parallel.residual = 1 : i64})
// CHECK-SAME: -> (tensor<2x8xf32> {graph.state = @g}, tensor<8xf32> {graph.state = @h})
// CHECK: %[[NEW:.*]] = graph.repeat 2 reverse carried() stacked(%[[G]], %[[C]] : tensor<2x8xf32>, tensor<2x8xf32>) captured() stacking tensor<2x8xf32>
// CHECK: graph.add
// CHECK: %[[SUM:.*]] = graph.add %[[H]], %[[DX]]
// CHECK: return %[[NEW]], %[[SUM]]
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
  graph.source @s : tensor<3x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @w : tensor<2x8xf32> parameter stacked views [#graph.view<@s, 0, [1]>, #graph.view<@s, 8, [1]>] {parallel.stages = [0]}
  graph.state @g : tensor<2x8xf32> accumulator stacked of @w {parallel.stages = [0]}
  graph.state @e : tensor<8xf32> parameter views [#graph.view<@s, 16, [1]>] {parallel.stages = [0]}
  graph.state @h : tensor<8xf32> accumulator of @e {parallel.stages = [0]}
  func.func @forward_0(%x: tensor<8xf32> {graph.input = "x"}) -> (tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.procedure = "forward", parallel.stage = 0 : i64} {
    return %x : tensor<8xf32>
  }
  func.func @backward_0(%g: tensor<2x8xf32> {graph.state = @g}, %h: tensor<8xf32> {graph.state = @h}, %d: tensor<8xf32> {parallel.boundary = 0 : i64})
      -> (tensor<2x8xf32> {graph.state = @g}, tensor<8xf32> {graph.state = @h}) attributes {parallel.procedure = "backward", parallel.stage = 0 : i64} {
    %dx, %new = graph.repeat 2 reverse carried(%d : tensor<8xf32>) stacked(%g : tensor<2x8xf32>) captured() -> tensor<8xf32> stacking tensor<2x8xf32> {
    ^bb0(%c: tensor<8xf32>, %gi: tensor<8xf32>):
      %a = graph.add %gi, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %e = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
      graph.yield %e, %a : tensor<8xf32>, tensor<8xf32>
    }
    %sum = graph.add %h, %dx : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %new, %sum : tensor<2x8xf32>, tensor<8xf32>
  }
}

// -----

// Carries to the weight gradients what only they need, the sum of the gradients of a parameter that all layers
// share, which begins with its accumulator; keeps no message and no input for them.
// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: (%[[D:arg[0-9]*]]: tensor<8xf32> {parallel.boundary = 0 : i64})
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<2x8xf32> {parallel.residual = 3 : i64})
// CHECK: %[[DX:.*]], %[[E:.*]] = graph.repeat 2 reverse carried(%[[D]] : tensor<8xf32>) stacked() captured() -> tensor<8xf32> stacking tensor<2x8xf32>
// CHECK-NEXT: ^bb0(%[[C:.*]]: tensor<8xf32>):
// CHECK-NEXT: %[[EI:.*]] = graph.exp %[[C]]
// CHECK-NEXT: graph.yield %[[EI]], %[[EI]] :
// CHECK: return %[[DX]], %[[E]]
// CHECK-LABEL: func.func @weight_1
// CHECK-SAME: (%[[X:arg[0-9]*]]: tensor<8xf32> {parallel.residual = 2 : i64}, %[[H:arg[0-9]*]]: tensor<8xf32> {graph.state = @h}, %[[E:arg[0-9]*]]: tensor<2x8xf32> {parallel.residual = 3 : i64})
// CHECK: %[[SUM:.*]] = graph.repeat 2 reverse carried(%[[H]] : tensor<8xf32>) stacked(%[[E]] : tensor<2x8xf32>) captured(%[[X]] : tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: ^bb0(%[[SI:.*]]: tensor<8xf32>, %[[EI:.*]]: tensor<8xf32>, %[[XI:.*]]: tensor<8xf32>):
// CHECK-NEXT: %[[P:.*]] = graph.mul %[[EI]], %[[XI]]
// CHECK-NEXT: graph.add %[[SI]], %[[P]]
// CHECK: return %[[SUM]]
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  graph.source @s : tensor<8xf32> {init = #graph.init_kind<zeros>}
  graph.state @e : tensor<8xf32> parameter views [#graph.view<@s, 0, [1]>] {parallel.stages = [1]}
  graph.state @h : tensor<8xf32> accumulator of @e {parallel.stages = [1]}
  func.func @forward_1(%x: tensor<8xf32> {parallel.boundary = 0 : i64}) -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<8xf32> {parallel.residual = 2 : i64}) attributes {parallel.procedure = "forward", parallel.stage = 1 : i64} {
    return %x, %x : tensor<8xf32>, tensor<8xf32>
  }
  func.func @backward_1(%x: tensor<8xf32> {parallel.residual = 2 : i64}, %h: tensor<8xf32> {graph.state = @h}, %d: tensor<8xf32> {parallel.boundary = 0 : i64})
      -> (tensor<8xf32> {graph.state = @h}, tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.procedure = "backward", parallel.stage = 1 : i64} {
    %sum, %dx = graph.repeat 2 reverse carried(%h, %d : tensor<8xf32>, tensor<8xf32>) stacked() captured(%x : tensor<8xf32>) -> tensor<8xf32>, tensor<8xf32> {
    ^bb0(%si: tensor<8xf32>, %c: tensor<8xf32>, %xi: tensor<8xf32>):
      %e = graph.exp %c : (tensor<8xf32>) -> tensor<8xf32>
      %p = graph.mul %e, %xi : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %a = graph.add %si, %p : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      graph.yield %a, %e : tensor<8xf32>, tensor<8xf32>
    }
    return %sum, %dx : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// Keeps for the weight gradients the message that they read; what depends on nothing is made in both.
// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: (%[[D:arg[0-9]*]]: tensor<8xf32> {parallel.boundary = 0 : i64})
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<8xf32> {parallel.residual = 0 : i64})
// CHECK-NEXT: %[[TWO:.*]] = graph.constant dense<2.0
// CHECK-NEXT: %[[DX:.*]] = graph.mul %[[D]], %[[TWO]]
// CHECK-NEXT: return {{.*}}%[[DX]], %[[D]]
// CHECK-LABEL: func.func @weight_1
// CHECK-SAME: (%[[H:arg[0-9]*]]: tensor<8xf32> {graph.state = @h}, %[[D:arg[0-9]*]]: tensor<8xf32> {parallel.residual = 0 : i64})
// CHECK-NEXT: %[[TWO:.*]] = graph.constant dense<2.0
// CHECK-NEXT: %[[P:.*]] = graph.exp %[[D]]
// CHECK-NEXT: %[[Q:.*]] = graph.mul %[[P]], %[[TWO]]
// CHECK-NEXT: graph.add %[[H]], %[[Q]]
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=3, "tp"=1]>} {
  graph.source @s : tensor<8xf32> {init = #graph.init_kind<zeros>}
  graph.state @e : tensor<8xf32> parameter views [#graph.view<@s, 0, [1]>] {parallel.stages = [1]}
  graph.state @h : tensor<8xf32> accumulator of @e {parallel.stages = [1]}
  func.func @forward_1(%x: tensor<8xf32> {parallel.boundary = 0 : i64}) -> (tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.procedure = "forward", parallel.stage = 1 : i64} {
    return %x : tensor<8xf32>
  }
  func.func @backward_1(%h: tensor<8xf32> {graph.state = @h}, %d: tensor<8xf32> {parallel.boundary = 0 : i64})
      -> (tensor<8xf32> {graph.state = @h}, tensor<8xf32> {parallel.boundary = 0 : i64}) attributes {parallel.procedure = "backward", parallel.stage = 1 : i64} {
    %two = graph.constant dense<2.0> : tensor<f32>
    %dx = graph.mul %d, %two : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %p = graph.exp %d : (tensor<8xf32>) -> tensor<8xf32>
    %q = graph.mul %p, %two : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    %new = graph.add %h, %q : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %new, %dx : tensor<8xf32>, tensor<8xf32>
  }
}
