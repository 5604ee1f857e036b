// RUN: llmc-opt %s --split-input-file --llmc-flatten-states --llmc-verify-partition | FileCheck %s

// Stage 3 of ZeRO. Two layers have a matrix that decays and a vector that does not, whose update
// differs: a bucket each. A bucket of three elements is padded for two ranks.
// CHECK-LABEL: module @three
module @three attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @w0 : tensor<3x3xf32> {init = #graph.init_kind<ones>}
  graph.source @w1 : tensor<3x3xf32> {init = #graph.init_kind<ones>}
  graph.source @b0 : tensor<3xf32> {init = #graph.init_kind<ones>}
  graph.source @b1 : tensor<3xf32> {init = #graph.init_kind<ones>}
  graph.state @w : tensor<2x3x3xf32> parameter stacked views [#graph.view<@w0, 0, [3, 1]>, #graph.view<@w1, 0, [3, 1]>] {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  graph.state @w.grad : tensor<2x3x3xf32> accumulator of @w {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  graph.state @b : tensor<2x3xf32> parameter stacked views [#graph.view<@b0, 0, [1]>, #graph.view<@b1, 0, [1]>] {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  graph.state @b.grad : tensor<2x3xf32> accumulator of @b {parallel.flat_axes = ["dp"], parallel.stages = [0]}

  // CHECK: func.func @forward_0
  // CHECK-SAME: %[[FW:[a-z0-9]+]]: tensor<2x5xf32> {parallel.flat = #parallel.flat<["dp"], [<@w, 0, [3, 3]>]>, parallel.layers = array<i64: 0, 2>}
  // CHECK-SAME: %[[FB:[a-z0-9]+]]: tensor<2x2xf32> {parallel.flat = #parallel.flat<["dp"], [<@b, 0, [3]>]>, parallel.layers = array<i64: 0, 2>}
  // CHECK: graph.repeat 2 carried({{.*}}) stacked(%[[FW]], %[[FB]] :
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<3xf32>, %[[W:[a-z0-9]+]]: tensor<5xf32>, %[[B:[a-z0-9]+]]: tensor<2xf32>):
  // CHECK-DAG: %[[GB:.*]] = parallel.all_gather %[[B]] over ["dp"] dim 0 {{.*}}tactic = "state"{{.*}} : (tensor<2xf32>) -> tensor<4xf32>
  // CHECK-DAG: graph.slice %[[GB]] {limits = array<i64: 3>, starts = array<i64: 0>
  // CHECK-DAG: %[[GW:.*]] = parallel.all_gather %[[W]] over ["dp"] dim 0 {{.*}} : (tensor<5xf32>) -> tensor<10xf32>
  // CHECK-DAG: graph.slice %[[GW]] {limits = array<i64: 9>, starts = array<i64: 0>
  func.func @forward_0(%x: tensor<3xf32> {graph.input = "x"}, %w: tensor<2x3x3xf32> {graph.state = @w},
                       %b: tensor<2x3xf32> {graph.state = @b})
      -> (tensor<2x3xf32> {parallel.residual = 0 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %h, %r = graph.repeat 2 carried(%x : tensor<3xf32>) stacked(%w, %b : tensor<2x3x3xf32>, tensor<2x3xf32>) captured()
        -> tensor<3xf32> stacking tensor<2x3xf32> {
    ^bb0(%i: tensor<3xf32>, %wi: tensor<3x3xf32>, %bi: tensor<3xf32>):
      %0 = graph.matmul "d,de->e" %i, %wi : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
      %1 = graph.add %0, %bi : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      graph.yield %1, %i : tensor<3xf32>, tensor<3xf32>
    }
    return %r : tensor<2x3xf32>
  }

  // A rank adds the scattered sum of all ranks' gradients to its part.
  // CHECK: func.func @backward_0
  // CHECK: graph.repeat 2 reverse
  // CHECK: %[[DW:.*]] = graph.matmul "d,e->de"
  // CHECK: %[[FLAT:.*]] = graph.reshape %[[DW]] : (tensor<3x3xf32>) -> tensor<9xf32>
  // CHECK: %[[ALL:.*]] = graph.concat %[[FLAT]], %{{.*}} {dim = 0 : i64} : (tensor<9xf32>, tensor<1xf32>) -> tensor<10xf32>
  // CHECK: %[[OWN:.*]] = parallel.reduce_scatter %[[ALL]] over ["dp"] dim 0 {{.*}} : (tensor<10xf32>) -> tensor<5xf32>
  // CHECK: graph.add %{{.*}}, %[[OWN]] : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  func.func @backward_0(%r: tensor<2x3xf32> {parallel.residual = 0 : i64}, %w: tensor<2x3x3xf32> {graph.state = @w},
                        %gw: tensor<2x3x3xf32> {graph.state = @w.grad}, %gb: tensor<2x3xf32> {graph.state = @b.grad})
      -> (tensor<2x3x3xf32> {graph.state = @w.grad}, tensor<2x3xf32> {graph.state = @b.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %dy = graph.constant dense<1.0> : tensor<3xf32>
    %dx, %nw, %nb = graph.repeat 2 reverse carried(%dy : tensor<3xf32>)
        stacked(%w, %gw, %gb, %r : tensor<2x3x3xf32>, tensor<2x3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) captured()
        -> tensor<3xf32> stacking tensor<2x3x3xf32>, tensor<2x3xf32> {
    ^bb0(%d: tensor<3xf32>, %wi: tensor<3x3xf32>, %gwi: tensor<3x3xf32>, %gbi: tensor<3xf32>, %i: tensor<3xf32>):
      %0 = graph.matmul "d,e->de" %i, %d : (tensor<3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
      %1 = graph.matmul "e,de->d" %d, %wi : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
      %2 = graph.add %gwi, %0 : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
      %3 = graph.add %gbi, %d : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      graph.yield %1, %2, %3 : tensor<3xf32>, tensor<3x3xf32>, tensor<3xf32>
    }
    return %nw, %nb : tensor<2x3x3xf32>, tensor<2x3xf32>
  }

  // The update reads parts alone, and the norm is summed over the ranks that have the others.
  // CHECK: func.func @update_0
  // CHECK-NOT: reduce_scatter
  // CHECK-DAG: %[[NW:.*]] = graph.reduce %{{.*}} {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum_squares>} : (tensor<2x5xf32>) -> tensor<f32>
  // CHECK-DAG: %[[NB:.*]] = graph.reduce %{{.*}} {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum_squares>} : (tensor<2x2xf32>) -> tensor<f32>
  // CHECK: %[[SUM:.*]] = graph.add %[[NW]], %[[NB]]
  // CHECK-NEXT: %[[NORM:.*]] = parallel.all_reduce %[[SUM]] over ["dp"]
  // CHECK-NEXT: graph.sqrt %[[NORM]]
  // CHECK-NOT: all_gather
  // CHECK: return
  func.func @update_0(%w: tensor<2x3x3xf32> {graph.state = @w}, %b: tensor<2x3xf32> {graph.state = @b},
                      %gw: tensor<2x3x3xf32> {graph.state = @w.grad}, %gb: tensor<2x3xf32> {graph.state = @b.grad},
                      %lr: tensor<f32> {graph.scalar = "lr"})
      -> (tensor<2x3x3xf32> {graph.state = @w}, tensor<2x3xf32> {graph.state = @b},
          tensor<2x3x3xf32> {graph.state = @w.grad}, tensor<2x3xf32> {graph.state = @b.grad},
          tensor<f32> {graph.output = "grad_norm"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = parallel.all_reduce %gw over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "w", rule = "partial sums", tactic = "data"}} : tensor<2x3x3xf32>
    %1 = parallel.all_reduce %gb over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "b", rule = "partial sums", tactic = "data"}} : tensor<2x3xf32>
    %2 = graph.reduce %0 {dims = array<i64: 0, 1, 2>, kind = #graph.reduce_kind<sum_squares>} : (tensor<2x3x3xf32>) -> tensor<f32>
    %3 = graph.reduce %1 {dims = array<i64: 0, 1>, kind = #graph.reduce_kind<sum_squares>} : (tensor<2x3xf32>) -> tensor<f32>
    %4 = graph.add %2, %3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = graph.sqrt %4 : (tensor<f32>) -> tensor<f32>
    %6 = graph.mul %0, %lr : (tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xf32>
    %7 = graph.sub %w, %6 : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
    %8 = graph.mul %7, %lr : (tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xf32>
    %9 = graph.mul %1, %lr : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %10 = graph.sub %b, %9 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %8, %10, %0, %1, %5 : tensor<2x3x3xf32>, tensor<2x3xf32>, tensor<2x3x3xf32>, tensor<2x3xf32>, tensor<f32>
  }
}

// -----

// Stage 1: two tensors of one class are one bucket. Gradients are added up whole in a sum of
// their own; the update scatters it, renews a part of the masters and gathers the weights.
// CHECK-LABEL: module @one
// CHECK: graph.state @bucket0.0.sum : tensor<6xf32> accumulator {parallel.stages = [0]}
module @one attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s : tensor<3xf32> {init = #graph.init_kind<ones>}
  graph.source @t : tensor<2xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<3xbf16> parameter views [#graph.view<@s, 0, [1]>] {parallel.stages = [0]}
  graph.state @p.grad : tensor<3xf32> accumulator of @p {parallel.stages = [0]}
  graph.state @p.master : tensor<3xf32> master of @p {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  graph.state @q : tensor<2xbf16> parameter views [#graph.view<@t, 0, [1]>] {parallel.stages = [0]}
  graph.state @q.grad : tensor<2xf32> accumulator of @q {parallel.stages = [0]}
  graph.state @q.master : tensor<2xf32> master of @q {parallel.flat_axes = ["dp"], parallel.stages = [0]}

  // CHECK: func.func @forward_0(%[[P:[a-z0-9]+]]: tensor<6xbf16> {parallel.flat = #parallel.flat<[], [<@p, 0, [3]>, <@q, 3, [2]>]>}
  // CHECK-DAG: graph.slice %[[P]] {limits = array<i64: 3>, starts = array<i64: 0>
  // CHECK-DAG: graph.slice %[[P]] {limits = array<i64: 5>, starts = array<i64: 3>
  func.func @forward_0(%p: tensor<3xbf16> {graph.state = @p}, %q: tensor<2xbf16> {graph.state = @q})
      -> (tensor<3xbf16> {parallel.residual = 0 : i64}, tensor<2xbf16> {parallel.residual = 1 : i64})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    %0 = graph.neg %p : (tensor<3xbf16>) -> tensor<3xbf16>
    %1 = graph.neg %q : (tensor<2xbf16>) -> tensor<2xbf16>
    return %0, %1 : tensor<3xbf16>, tensor<2xbf16>
  }
  // What is padding in the sum stays where it is.
  // CHECK: func.func @backward_0
  // CHECK-SAME: %[[G:[a-z0-9]+]]: tensor<6xf32> {graph.state = @bucket0.0.sum}
  // CHECK: graph.slice %[[G]] {limits = array<i64: 6>, starts = array<i64: 5>
  // CHECK: graph.concat {{.*}} -> tensor<6xf32>
  func.func @backward_0(%0: tensor<3xbf16> {parallel.residual = 0 : i64}, %1: tensor<2xbf16> {parallel.residual = 1 : i64},
                        %gp: tensor<3xf32> {graph.state = @p.grad}, %gq: tensor<2xf32> {graph.state = @q.grad})
      -> (tensor<3xf32> {graph.state = @p.grad}, tensor<2xf32> {graph.state = @q.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %2 = graph.cast %0 : (tensor<3xbf16>) -> tensor<3xf32>
    %3 = graph.cast %1 : (tensor<2xbf16>) -> tensor<2xf32>
    %4 = graph.add %gp, %2 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %5 = graph.add %gq, %3 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %4, %5 : tensor<3xf32>, tensor<2xf32>
  }
  // CHECK: func.func @update_0
  // CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<6xf32> {graph.state = @bucket0.0.sum}
  // CHECK-DAG: %[[R:.*]] = parallel.reduce_scatter %[[S]] over ["dp"] dim 0 {{.*}} -> tensor<3xf32>
  // CHECK-DAG: %[[M:.*]] = graph.sub %{{.*}}, %[[R]] : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  // CHECK-DAG: %[[C:.*]] = graph.cast %[[M]] : (tensor<3xf32>) -> tensor<3xbf16>
  // CHECK-DAG: %[[W:.*]] = parallel.all_gather %[[C]] over ["dp"] dim 0 {{.*}} -> tensor<6xbf16>
  // CHECK: return %[[W]], %[[M]], %[[R]]
  func.func @update_0(%p: tensor<3xf32> {graph.state = @p.master}, %q: tensor<2xf32> {graph.state = @q.master},
                      %gp: tensor<3xf32> {graph.state = @p.grad}, %gq: tensor<2xf32> {graph.state = @q.grad})
      -> (tensor<3xbf16> {graph.state = @p}, tensor<2xbf16> {graph.state = @q}, tensor<3xf32> {graph.state = @p.master},
          tensor<2xf32> {graph.state = @q.master}, tensor<3xf32> {graph.state = @p.grad}, tensor<2xf32> {graph.state = @q.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = parallel.all_reduce %gp over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "p", rule = "partial sums", tactic = "data"}} : tensor<3xf32>
    %1 = parallel.all_reduce %gq over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "q", rule = "partial sums", tactic = "data"}} : tensor<2xf32>
    %2 = graph.sub %p, %0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %3 = graph.sub %q, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %4 = graph.cast %2 : (tensor<3xf32>) -> tensor<3xbf16>
    %5 = graph.cast %3 : (tensor<2xf32>) -> tensor<2xbf16>
    return %4, %5, %2, %3, %0, %1 : tensor<3xbf16>, tensor<2xbf16>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>
  }
}
