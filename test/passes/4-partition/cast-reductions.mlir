// RUN: llmc-opt %s --split-input-file --llmc-cast-reductions=element=bf16 | FileCheck %s
// RUN: llmc-opt %s --split-input-file --llmc-cast-reductions=element=f32 | FileCheck %s --check-prefix=WIDE
// RUN: llmc-opt %s --split-input-file --llmc-cast-reductions | FileCheck %s --check-prefix=KEPT

// All-reduces of whole accumulators are cast, those of layers in a repeat. The sum of the loss and a
// sum over tp alone keep their types.
// CHECK-LABEL: module @whole
// WIDE-LABEL: module @whole
// KEPT-LABEL: module @whole
module @whole attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=2]>} {
  graph.source @s : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.source @s0 : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.source @s1 : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<4xf32> parameter views [#graph.view<@s, 0, [1]>] {parallel.stages = [0]}
  graph.state @p.grad : tensor<4xf32> accumulator of @p {parallel.stages = [0]}
  graph.state @l : tensor<2x4xf32> parameter stacked views [#graph.view<@s0, 0, [1]>, #graph.view<@s1, 0, [1]>] {parallel.stages = [0]}
  graph.state @l.grad : tensor<2x4xf32> accumulator stacked of @l {parallel.stages = [0]}
  graph.state @loss.sum : tensor<f32> accumulator {parallel.stages = [0]}
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return
  }
  func.func @backward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    return
  }
  // CHECK: func.func @update_0(%[[P:.*]]: tensor<4xf32> {{.*}}, %[[L:.*]]: tensor<2x4xf32> {{.*}}, %[[GP:.*]]: tensor<4xf32> {{.*}}, %[[GL:.*]]: tensor<2x4xf32> {{.*}}, %[[LOSS:.*]]: tensor<f32>
  // CHECK: %[[LOW:.*]] = graph.cast %[[GP]] : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-NEXT: %[[SUM:.*]] = parallel.all_reduce %[[LOW]] over ["dp"] {{.*}} : tensor<4xbf16>
  // CHECK-NEXT: %[[MEAN:.*]] = graph.cast %[[SUM]] : (tensor<4xbf16>) -> tensor<4xf32>
  // CHECK-NEXT: %[[SUMS:.*]] = graph.repeat 2 carried() stacked(%[[GL]] : tensor<2x4xf32>) captured() stacking tensor<2x4xbf16> {
  // CHECK-NEXT: ^bb0(%[[LAYER:.*]]: tensor<4xf32>):
  // CHECK-NEXT: %[[LOWS:.*]] = graph.cast %[[LAYER]] : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-NEXT: %[[ONE:.*]] = parallel.all_reduce %[[LOWS]] over ["dp", "tp"] {{.*}} : tensor<4xbf16>
  // CHECK-NEXT: graph.yield %[[ONE]]
  // CHECK: %[[MEANS:.*]] = graph.cast %[[SUMS]] : (tensor<2x4xbf16>) -> tensor<2x4xf32>
  // CHECK-NEXT: parallel.all_reduce %[[LOSS]] over ["dp"] {{.*}} : tensor<f32>
  // CHECK-NEXT: parallel.all_reduce %[[GP]] over ["tp"] {{.*}} : tensor<4xf32>
  // CHECK: graph.sub %[[P]], %[[MEAN]]
  // CHECK-NEXT: graph.sub %[[L]], %[[MEANS]]
  // WIDE-NOT: graph.cast
  // KEPT-NOT: graph.cast
  func.func @update_0(%p: tensor<4xf32> {graph.state = @p}, %l: tensor<2x4xf32> {graph.state = @l},
                      %gp: tensor<4xf32> {graph.state = @p.grad}, %gl: tensor<2x4xf32> {graph.state = @l.grad},
                      %loss: tensor<f32> {graph.state = @loss.sum})
      -> (tensor<4xf32> {graph.state = @p}, tensor<2x4xf32> {graph.state = @l}, tensor<f32> {graph.output = "loss"})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = parallel.all_reduce %gp over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "p", rule = "partial sums", tactic = "data"}} : tensor<4xf32>
    %1 = parallel.all_reduce %gl over ["dp", "tp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "l", rule = "partial sums", tactic = "data"}} : tensor<2x4xf32>
    %2 = parallel.all_reduce %loss over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "loss", rule = "partial sums", tactic = "data"}} : tensor<f32>
    %3 = parallel.all_reduce %gp over ["tp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "p", rule = "partial sums", tactic = "tensor"}} : tensor<4xf32>
    %4 = graph.sub %p, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = graph.sub %l, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %6 = graph.add %4, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %6, %5, %2 : tensor<4xf32>, tensor<2x4xf32>, tensor<f32>
  }
}

// -----

// Reduce-scatters are cast wherever they stand: parts of all layers together in @update, each part
// before it is added in @backward.
// CHECK-LABEL: module @shared
// WIDE-LABEL: module @shared
// KEPT-LABEL: module @shared
module @shared attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s0 : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.source @s1 : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.state @l : tensor<2x4xf32> parameter stacked views [#graph.view<@s0, 0, [1]>, #graph.view<@s1, 0, [1]>] {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  graph.state @l.grad : tensor<2x4xf32> accumulator stacked of @l {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return
  }
  // CHECK: func.func @backward_0(%[[G:.*]]: tensor<2xf32>
  // CHECK: %[[LOW:.*]] = graph.cast %{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-NEXT: %[[PART:.*]] = parallel.reduce_scatter %[[LOW]] over ["dp"] dim 0 {{.*}} : (tensor<4xbf16>) -> tensor<2xbf16>
  // CHECK-NEXT: %[[FULL:.*]] = graph.cast %[[PART]] : (tensor<2xbf16>) -> tensor<2xf32>
  // CHECK-NEXT: graph.add %[[G]], %[[FULL]]
  func.func @backward_0(%g: tensor<2xf32>) -> tensor<2xf32>
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %x = graph.constant dense<1.0> : tensor<4xf32>
    %0 = parallel.reduce_scatter %x over ["dp"] dim 0 {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "l", rule = "r", tactic = "state"}} : (tensor<4xf32>) -> tensor<2xf32>
    %1 = graph.add %g, %0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  // CHECK: func.func @update_0(%[[SUM:.*]]: tensor<2x4xf32>)
  // CHECK-NEXT: %[[PARTS:.*]] = graph.repeat 2 carried() stacked(%[[SUM]] : tensor<2x4xf32>) captured() stacking tensor<2x2xbf16> {
  // CHECK: graph.cast %{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-NEXT: parallel.reduce_scatter %{{.*}} : (tensor<4xbf16>) -> tensor<2xbf16>
  // CHECK-NEXT: graph.yield
  // CHECK: %[[OUT:.*]] = graph.cast %[[PARTS]] : (tensor<2x2xbf16>) -> tensor<2x2xf32>
  // CHECK-NEXT: return %[[OUT]]
  func.func @update_0(%sum: tensor<2x4xf32>) -> tensor<2x2xf32>
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = graph.repeat 2 carried() stacked(%sum : tensor<2x4xf32>) captured() stacking tensor<2x2xf32> {
    ^bb0(%x: tensor<4xf32>):
      %1 = parallel.reduce_scatter %x over ["dp"] dim 0 {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "l", rule = "r", tactic = "state"}} : (tensor<4xf32>) -> tensor<2xf32>
      graph.yield %1 : tensor<2xf32>
    }
    return %0 : tensor<2x2xf32>
  }
}

// -----

// A sum in f32 of gradients in bf16 is not rounded before who reads it in f32.
// WIDE-LABEL: module @wide
module @wide attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<4xbf16> parameter views [#graph.view<@s, 0, [1]>] {parallel.stages = [0]}
  graph.state @p.grad : tensor<4xbf16> accumulator of @p {parallel.stages = [0]}
  // WIDE: %[[UP:.*]] = graph.cast %{{.*}} : (tensor<4xbf16>) -> tensor<4xf32>
  // WIDE-NEXT: %[[SUM:.*]] = parallel.all_reduce %[[UP]]
  // WIDE-NEXT: %[[LOW:.*]] = graph.cast %[[SUM]] : (tensor<4xf32>) -> tensor<4xbf16>
  // WIDE-NEXT: graph.mul %[[SUM]], %[[SUM]]
  // WIDE-NEXT: return %[[LOW]]
  func.func @update_0(%g: tensor<4xbf16> {graph.state = @p.grad}) -> (tensor<4xbf16>, tensor<4xf32>)
      attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = parallel.all_reduce %g over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "p", rule = "partial sums", tactic = "data"}} : tensor<4xbf16>
    %1 = graph.cast %0 : (tensor<4xbf16>) -> tensor<4xf32>
    %2 = graph.mul %1, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0, %2 : tensor<4xbf16>, tensor<4xf32>
  }
}
