// RUN: llmc-opt %s --llmc-split-stages --split-input-file | FileCheck %s

// Three layers over two stages, and a matrix that both ends use.
// Forward: the activation crosses the border, the layers' inputs stay for backward.

// CHECK: graph.state @w {{.*}}parallel.stages = [0, 1]

// CHECK-LABEL: func.func @forward_0
// CHECK-SAME: %[[X:arg[0-9]*]]: tensor<4x8xf32> {graph.input = "x"
// CHECK-SAME: %[[W:arg[0-9]*]]: tensor<8x8xf32> {graph.state = @w,
// CHECK-SAME: %[[WS:arg[0-9]*]]: tensor<2x8x8xf32> {graph.state = @ws, parallel.layers = array<i64: 0, 2>
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.boundary = 0 : i64}, tensor<2x4x8xf32> {parallel.residual = 0 : i64})
// CHECK-SAME: parallel.procedure = "forward", parallel.stage = 0
// CHECK: %[[H:.*]] = graph.matmul "sd,de->se" %[[X]], %[[W]]
// CHECK: graph.repeat 2 carried(%[[H]] : tensor<4x8xf32>) stacked(%[[WS]] : tensor<2x8x8xf32>)

// A reshape is done again rather than kept (residual 0 is what it reshapes),
// and so is a constant.
// CHECK-LABEL: func.func @forward_1
// CHECK-SAME: tensor<1x8x8xf32> {graph.state = @ws, parallel.layers = array<i64: 2, 1>
// CHECK-SAME: %[[IN:arg[0-9]*]]: tensor<4x8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.residual = 0 : i64}, tensor<4x8xf32> {parallel.residual = 1 : i64}, tensor<1x4x8xf32> {parallel.residual = 2 : i64}, tensor<f32> {graph.state = @count})
// CHECK: %[[H:.*]], %[[K:.*]] = graph.repeat 1 carried(%[[IN]]
// CHECK: %[[Y:.*]] = graph.matmul "sd,ed->se" %[[H]]
// CHECK: %[[ONE:.*]] = graph.constant
// CHECK: %[[C:.*]] = graph.add %{{.*}}, %[[ONE]]
// CHECK: return {{.*}} %[[Y]], %[[H]], %[[K]], %[[C]]

// Each end adds its own share of the tied gradient.
// CHECK-LABEL: func.func @backward_0
// CHECK-SAME: %[[G:arg[0-9]*]]: tensor<8x8xf32> {graph.state = @g,
// CHECK-SAME: %[[D:arg[0-9]*]]: tensor<4x8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: -> (tensor<8x8xf32> {graph.state = @g}, tensor<2x8x8xf32> {graph.state = @gs, parallel.layers = array<i64: 0, 2>})
// CHECK: %[[DH:.*]], %{{.*}} = graph.repeat 2 reverse carried(%[[D]]
// CHECK: %[[DW:.*]] = graph.matmul "sd,se->de" %{{.*}}, %[[DH]]
// CHECK: graph.add %[[G]], %[[DW]]

// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: %[[Y:arg[0-9]*]]: tensor<4x8xf32> {parallel.residual = 0
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.boundary = 0 : i64}, tensor<8x8xf32> {graph.state = @g}, tensor<1x8x8xf32> {graph.state = @gs, parallel.layers = array<i64: 2, 1>})
// CHECK-NEXT: %[[F:.*]] = graph.reshape %[[Y]]
// CHECK-NEXT: graph.tanh %[[F]]
// CHECK: %[[DW:.*]] = graph.matmul "se,sd->ed"
// CHECK: graph.repeat 1 reverse
// CHECK: graph.add %{{.*}}, %[[DW]]

// The shares are summed over the holders; the norm counts the tied matrix in
// stage 0 only, the layers where they are, and sums over the stages.
// CHECK-LABEL: func.func @update_0
// CHECK: %[[G:.*]] = parallel.all_reduce %{{.*}} over ["pp"] members [0, 1] {{.*}}parallel.origin = {node = "tied"
// CHECK-NEXT: %[[N:.*]] = parallel.reshard %{{.*}} from <[], unreduced = {"pp": sum}> to <[]> {parallel.origin = {node = "count"
// CHECK-NEXT: %[[M:.*]] = graph.div %[[G]], %[[N]]
// CHECK-NEXT: %[[MS:.*]] = graph.div %{{.*}}, %[[N]] : (tensor<2x8x8xf32>
// CHECK-NEXT: %[[S:.*]] = graph.reduce %[[M]]
// CHECK-NEXT: %[[SS:.*]] = graph.reduce %[[MS]]
// CHECK-NEXT: %[[SUM:.*]] = graph.add %[[S]], %[[SS]]
// CHECK-NEXT: %[[ALL:.*]] = parallel.reshard %[[SUM]] from <[], unreduced = {"pp": sum}> to <[]>
// CHECK-NEXT: graph.sqrt %[[ALL]]

// CHECK-LABEL: func.func @update_1
// CHECK-SAME: tensor<f32> {graph.output = "norm"}
// CHECK: %[[G:.*]] = parallel.all_reduce %{{.*}} over ["pp"] members [0, 1]
// CHECK: %[[MS:.*]] = graph.div %{{.*}} : (tensor<1x8x8xf32>
// CHECK-NEXT: %[[SS:.*]] = graph.reduce %[[MS]]
// CHECK-NEXT: parallel.reshard %[[SS]] from <[], unreduced = {"pp": sum}> to <[]>

// CHECK-NOT: func.func @micro

module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @tied : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
graph.source @layers : tensor<3x8x8xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<8x8xf32> parameter views [#graph.view<@tied, 0, [8, 1]>]
graph.state @g : tensor<8x8xf32> accumulator of @w
graph.state @ws : tensor<3x8x8xf32> parameter stacked views [#graph.view<@layers, 0, [8, 1]>, #graph.view<@layers, 64, [8, 1]>, #graph.view<@layers, 128, [8, 1]>]
graph.state @gs : tensor<3x8x8xf32> accumulator of @ws
graph.state @count : tensor<f32> accumulator

func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<8x8xf32> {graph.state = @w}, %ws: tensor<3x8x8xf32> {graph.state = @ws},
                 %g: tensor<8x8xf32> {graph.state = @g}, %gs: tensor<3x8x8xf32> {graph.state = @gs}, %count: tensor<f32> {graph.state = @count})
    -> (tensor<8x8xf32> {graph.state = @g}, tensor<3x8x8xf32> {graph.state = @gs}, tensor<f32> {graph.state = @count}) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %h0 = graph.matmul "sd,de->se" %x, %w {parallel.stage = 0 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %h, %res = graph.repeat 3 carried(%h0 : tensor<4x8xf32>) stacked(%ws : tensor<3x8x8xf32>) captured() -> tensor<4x8xf32> stacking tensor<3x4x8xf32>
      attributes {parallel.layers = [2, 1]} {
  ^bb0(%c: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
    %0 = graph.matmul "sd,de->se" %c, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    graph.yield %0, %c : tensor<4x8xf32>, tensor<4x8xf32>
  }
  %y = graph.matmul "sd,ed->se" %h, %w {parallel.stage = 1 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %count2 = graph.add %count, %one {parallel.stage = 1 : i64} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %flat = graph.reshape %y {parallel.stage = 1 : i64} : (tensor<4x8xf32>) -> tensor<32xf32>
  %d0 = graph.tanh %flat {graph.backward, parallel.stage = 1 : i64} : (tensor<32xf32>) -> tensor<32xf32>
  %dy = graph.reshape %d0 {graph.backward, parallel.stage = 1 : i64} : (tensor<32xf32>) -> tensor<4x8xf32>
  %dw1 = graph.matmul "se,sd->ed" %dy, %h {graph.backward, parallel.stage = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dh = graph.matmul "se,ed->sd" %dy, %w {graph.backward, parallel.stage = 1 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dh0, %gs2 = graph.repeat 3 reverse carried(%dh : tensor<4x8xf32>) stacked(%gs, %ws, %res : tensor<3x8x8xf32>, tensor<3x8x8xf32>, tensor<3x4x8xf32>) captured()
      -> tensor<4x8xf32> stacking tensor<3x8x8xf32> attributes {graph.backward, parallel.layers = [2, 1]} {
  ^bb0(%c: tensor<4x8xf32>, %gi: tensor<8x8xf32>, %wi: tensor<8x8xf32>, %r: tensor<4x8xf32>):
    %0 = graph.matmul "se,de->sd" %c, %wi {graph.backward} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = graph.matmul "sd,se->de" %r, %c {graph.backward} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %2 = graph.add %gi, %1 {graph.backward} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    graph.yield %0, %2 : tensor<4x8xf32>, tensor<8x8xf32>
  }
  %dw0 = graph.matmul "sd,se->de" %x, %dh0 {graph.backward, parallel.stage = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dw = graph.add %dw1, %dw0 {graph.backward, parallel.stage = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g2 = graph.add %g, %dw {graph.backward, parallel.stage = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %g2, %gs2, %count2 : tensor<8x8xf32>, tensor<3x8x8xf32>, tensor<f32>
}

func.func @update(%w: tensor<8x8xf32> {graph.state = @w}, %ws: tensor<3x8x8xf32> {graph.state = @ws}, %g: tensor<8x8xf32> {graph.state = @g},
                  %gs: tensor<3x8x8xf32> {graph.state = @gs}, %count: tensor<f32> {graph.state = @count})
    -> (tensor<8x8xf32> {graph.state = @w}, tensor<3x8x8xf32> {graph.state = @ws}, tensor<f32> {graph.output = "norm"}) {
  %m = graph.div %g, %count : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %ms = graph.div %gs, %count : (tensor<3x8x8xf32>, tensor<f32>) -> tensor<3x8x8xf32>
  %s = graph.reduce %m {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 0, 1>} : (tensor<8x8xf32>) -> tensor<f32>
  %ss = graph.reduce %ms {kind = #graph.reduce_kind<sum_squares>, dims = array<i64: 0, 1, 2>} : (tensor<3x8x8xf32>) -> tensor<f32>
  %sum = graph.add %s, %ss : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %norm = graph.sqrt %sum : (tensor<f32>) -> tensor<f32>
  %d = graph.div %m, %norm : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  %ds = graph.div %ms, %norm : (tensor<3x8x8xf32>, tensor<f32>) -> tensor<3x8x8xf32>
  %w2 = graph.sub %w, %d : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %ws2 = graph.sub %ws, %ds : (tensor<3x8x8xf32>, tensor<3x8x8xf32>) -> tensor<3x8x8xf32>
  return %w2, %ws2, %norm : tensor<8x8xf32>, tensor<3x8x8xf32>, tensor<f32>
}
}

// -----

// What follows from inputs alone crosses no border: stage 1 makes it again, in
// its backward pass as well. Stage 0 keeps what it has made.
// CHECK-LABEL: func.func @forward_0
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.boundary = 0 : i64}, tensor<4x8xf32> {parallel.residual = 0 : i64})
// CHECK: graph.cos
// CHECK-LABEL: func.func @forward_1
// CHECK-SAME: %[[X:arg[0-9]*]]: tensor<4x8xf32> {graph.input = "x"
// CHECK: graph.cos %[[X]]
// CHECK-LABEL: func.func @backward_0
// CHECK-NOT: graph.cos
// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: %[[X:arg[0-9]*]]: tensor<4x8xf32> {graph.input = "x"
// CHECK: graph.cos %[[X]]
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @s : tensor<4x8xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<4x8xf32> parameter views [#graph.view<@s, 0, [8, 1]>]
graph.state @g : tensor<4x8xf32> accumulator of @w
func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<4x8xf32> {graph.state = @w}, %g: tensor<4x8xf32> {graph.state = @g})
    -> (tensor<4x8xf32> {graph.state = @g}) {
  %c = graph.cos %x {parallel.stage = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = graph.mul %w, %c {parallel.stage = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.mul %0, %c {parallel.stage = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d1 = graph.mul %1, %c {graph.backward, parallel.stage = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d0 = graph.mul %d1, %c {graph.backward, parallel.stage = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g1 = graph.add %g, %d0 {graph.backward, parallel.stage = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %g1 : tensor<4x8xf32>
}
func.func @update(%w: tensor<4x8xf32> {graph.state = @w}, %g: tensor<4x8xf32> {graph.state = @g}) -> (tensor<4x8xf32> {graph.state = @w}) {
  %0 = graph.sub %w, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// What stage 0 makes of a parameter, and stage 1 needs in its backward pass, is sent once, as it
// is made: both stages reshape it.
// CHECK-LABEL: func.func @forward_0
// CHECK: %[[V:.*]] = graph.tanh
// CHECK: return {{.*}}%[[V]]
// CHECK-LABEL: func.func @forward_1
// CHECK-SAME: %[[IN:arg[0-9]*]]: tensor<4x8xf32> {parallel.boundary = 0
// CHECK-SAME: -> (tensor<4x8xf32> {parallel.residual = 0 : i64}, tensor<32xf32> {graph.state = @sum})
// CHECK: %[[F:.*]] = graph.reshape %[[IN]]
// CHECK: graph.exp %[[F]]
// CHECK: return {{.*}}%[[IN]]
// CHECK-LABEL: func.func @backward_0
// CHECK-SAME: %[[V:arg[0-9]*]]: tensor<4x8xf32> {parallel.residual = 0
// CHECK: %[[R:.*]] = graph.reshape %[[V]]
// CHECK: graph.mul %{{.*}}, %[[R]]
// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: %[[IN:arg[0-9]*]]: tensor<4x8xf32> {parallel.residual = 0
// CHECK: %[[R:.*]] = graph.reshape %[[IN]]
// CHECK: graph.exp %[[R]]
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>} {
graph.source @s : tensor<4x8xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<4x8xf32> parameter views [#graph.view<@s, 0, [8, 1]>]
graph.state @g : tensor<4x8xf32> accumulator of @w
graph.state @sum : tensor<32xf32> accumulator
func.func @micro(%w: tensor<4x8xf32> {graph.state = @w}, %g: tensor<4x8xf32> {graph.state = @g}, %sum: tensor<32xf32> {graph.state = @sum})
    -> (tensor<4x8xf32> {graph.state = @g}, tensor<32xf32> {graph.state = @sum}) {
  %v = graph.tanh %w {parallel.stage = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %flat = graph.reshape %v {parallel.stage = 0 : i64} : (tensor<4x8xf32>) -> tensor<32xf32>
  %e = graph.exp %flat {parallel.stage = 1 : i64} : (tensor<32xf32>) -> tensor<32xf32>
  %sum1 = graph.add %sum, %e {parallel.stage = 1 : i64} : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %again = graph.reshape %v {graph.backward, parallel.stage = 1 : i64} : (tensor<4x8xf32>) -> tensor<32xf32>
  %d1 = graph.exp %again {graph.backward, parallel.stage = 1 : i64} : (tensor<32xf32>) -> tensor<32xf32>
  %d0 = graph.mul %d1, %again {graph.backward, parallel.stage = 0 : i64} : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %d = graph.reshape %d0 {graph.backward, parallel.stage = 0 : i64} : (tensor<32xf32>) -> tensor<4x8xf32>
  %g1 = graph.add %g, %d {graph.backward, parallel.stage = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %g1, %sum1 : tensor<4x8xf32>, tensor<32xf32>
}
func.func @update(%w: tensor<4x8xf32> {graph.state = @w}, %g: tensor<4x8xf32> {graph.state = @g}, %sum: tensor<32xf32> {graph.state = @sum}) -> (tensor<4x8xf32> {graph.state = @w}) {
  %0 = graph.sub %w, %g : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
}

// -----

// Every rank skips what one of them skips: the output is the largest over the whole mesh.
// CHECK-LABEL: func.func @forward_0
// CHECK-LABEL: func.func @update_0
// CHECK: %[[OWN:.*]] = graph.select
// CHECK: %[[ALL:.*]] = parallel.all_reduce %[[OWN]] over ["dp", "pp", "tp"] {{.*}}max{{.*}}rule = "all ranks skip alike"
// CHECK: graph.compare %[[ALL]]
// CHECK: return {{.*}}, %[[ALL]] :
// CHECK-LABEL: func.func @update_1
// CHECK: %[[ALL:.*]] = parallel.all_reduce %{{.*}} over ["dp", "pp", "tp"]
// CHECK: return {{.*}}, %[[ALL]] :
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=2]>} {
graph.source @s : tensor<8xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<8xf32> parameter views [#graph.view<@s, 0, [1]>]
graph.state @g : tensor<8xf32> accumulator of @w
func.func @micro(%x: tensor<8xf32> {graph.input = "x"}, %w: tensor<8xf32> {graph.state = @w}, %g: tensor<8xf32> {graph.state = @g})
    -> (tensor<8xf32> {graph.state = @g}) {
  %0 = graph.mul %w, %x {parallel.stage = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = graph.neg %0 {parallel.stage = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  %d1 = graph.mul %1, %x {graph.backward, parallel.stage = 1 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g1 = graph.add %g, %d1 {graph.backward, parallel.stage = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %g1 : tensor<8xf32>
}
func.func @update(%w: tensor<8xf32> {graph.state = @w}, %g: tensor<8xf32> {graph.state = @g})
    -> (tensor<8xf32> {graph.state = @w}, tensor<f32> {graph.output = "skipped"}) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %norm = graph.reduce %g {dims = array<i64: 0>, kind = #graph.reduce_kind<sum_squares>} : (tensor<8xf32>) -> tensor<f32>
  %root = graph.sqrt %norm : (tensor<f32>) -> tensor<f32>
  %finite = graph.compare %root, %one {predicate = #graph.predicate<le>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %skipped = graph.select %finite, %zero, %one : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
  %takes = graph.compare %skipped, %zero {predicate = #graph.predicate<eq>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %next = graph.sub %w, %g : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %kept = graph.select %takes, %next, %w : (tensor<i1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %kept, %skipped : tensor<8xf32>, tensor<f32>
}
}
