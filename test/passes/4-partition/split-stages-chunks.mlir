// RUN: llmc-opt %s --llmc-split-stages | FileCheck %s

// Runs two chunks on each stage: virtual stages 0 and 2 on stage 0, 1 and 3 on stage 1. What one makes
// crosses to the next, at the end of a chunk from the last stage to the first; the layers of each
// chunk are states of their own, and a stage updates those of both. The list of the layers
// says that there are four.
// CHECK: graph.state @wa {{.*}}parallel.stages = [0, 1]
// CHECK: graph.state @wb {{.*}}parallel.stages = [0, 1]
// CHECK-LABEL: func.func @forward_0
// CHECK-SAME: tensor<1x8xf32> {graph.state = @wa, parallel.layers = array<i64: 0, 1>
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}
// CHECK-NOT: parallel.chunk
// CHECK-SAME: parallel.procedure = "forward", parallel.stage = 0 : i64}
// CHECK-LABEL: func.func @forward_1
// CHECK-SAME: tensor<1x8xf32> {graph.state = @wa, parallel.layers = array<i64: 1, 1>
// CHECK-SAME: tensor<8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}
// CHECK-NOT: parallel.chunk
// CHECK-SAME: parallel.procedure = "forward", parallel.stage = 1 : i64}
// CHECK-LABEL: func.func @forward_2
// CHECK-SAME: tensor<1x8xf32> {graph.state = @wb, parallel.layers = array<i64: 0, 1>
// CHECK-SAME: tensor<8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}
// CHECK-SAME: parallel.chunk = 1 : i64, parallel.procedure = "forward", parallel.stage = 0 : i64}
// CHECK-LABEL: func.func @forward_3
// CHECK-SAME: tensor<1x8xf32> {graph.state = @wb, parallel.layers = array<i64: 1, 1>
// CHECK-SAME: tensor<8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: parallel.chunk = 1 : i64, parallel.procedure = "forward", parallel.stage = 1 : i64}
// CHECK-LABEL: func.func @backward_0
// CHECK-SAME: tensor<8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: -> (tensor<1x8xf32> {graph.state = @ga, parallel.layers = array<i64: 0, 1>})
// CHECK-SAME: parallel.procedure = "backward", parallel.stage = 0 : i64}
// CHECK-LABEL: func.func @backward_1
// CHECK-SAME: tensor<8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<1x8xf32> {graph.state = @ga, parallel.layers = array<i64: 1, 1>})
// CHECK-LABEL: func.func @backward_2
// CHECK-SAME: tensor<8xf32> {parallel.boundary = 0 : i64
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<1x8xf32> {graph.state = @gb, parallel.layers = array<i64: 0, 1>})
// CHECK-SAME: parallel.chunk = 1 : i64, parallel.procedure = "backward", parallel.stage = 0 : i64}
// CHECK-LABEL: func.func @backward_3
// CHECK-SAME: -> (tensor<8xf32> {parallel.boundary = 0 : i64}, tensor<1x8xf32> {graph.state = @gb, parallel.layers = array<i64: 1, 1>})
// CHECK-SAME: parallel.chunk = 1 : i64, parallel.procedure = "backward", parallel.stage = 1 : i64}
// CHECK-LABEL: func.func @update_0
// CHECK-SAME: tensor<1x8xf32> {graph.state = @wa, parallel.layers = array<i64: 0, 1>
// CHECK-SAME: tensor<1x8xf32> {graph.state = @wb, parallel.layers = array<i64: 0, 1>
// CHECK-SAME: -> (tensor<1x8xf32> {graph.state = @wa, parallel.layers = array<i64: 0, 1>}, tensor<1x8xf32> {graph.state = @wb, parallel.layers = array<i64: 0, 1>})
// CHECK-SAME: {parallel.procedure = "update", parallel.stage = 0 : i64}
// CHECK-LABEL: func.func @update_1
// CHECK-SAME: -> (tensor<1x8xf32> {graph.state = @wa, parallel.layers = array<i64: 1, 1>}, tensor<1x8xf32> {graph.state = @wb, parallel.layers = array<i64: 1, 1>})
// CHECK-SAME: {parallel.procedure = "update", parallel.stage = 1 : i64}
// CHECK-NOT: func.func
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1, 1, 1>} {
graph.source @s : tensor<4x8xf32> {init = #graph.init_kind<zeros>}
graph.state @wa : tensor<2x8xf32> parameter stacked views [#graph.view<@s, 0, [1]>, #graph.view<@s, 8, [1]>]
graph.state @wb : tensor<2x8xf32> parameter stacked views [#graph.view<@s, 16, [1]>, #graph.view<@s, 24, [1]>]
graph.state @ga : tensor<2x8xf32> accumulator stacked of @wa
graph.state @gb : tensor<2x8xf32> accumulator stacked of @wb
func.func @micro(%x: tensor<8xf32> {graph.input = "x"}, %wa: tensor<2x8xf32> {graph.state = @wa}, %wb: tensor<2x8xf32> {graph.state = @wb},
                 %ga: tensor<2x8xf32> {graph.state = @ga}, %gb: tensor<2x8xf32> {graph.state = @gb})
    -> (tensor<2x8xf32> {graph.state = @ga}, tensor<2x8xf32> {graph.state = @gb}) {
  %h = graph.repeat 2 carried(%x : tensor<8xf32>) stacked(%wa : tensor<2x8xf32>) captured() -> tensor<8xf32> attributes {parallel.layers = array<i64: 1, 1, 0, 0>} {
  ^bb0(%c: tensor<8xf32>, %wi: tensor<8xf32>):
    %0 = graph.add %c, %wi : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    graph.yield %0 : tensor<8xf32>
  }
  %y = graph.repeat 2 carried(%h : tensor<8xf32>) stacked(%wb : tensor<2x8xf32>) captured() -> tensor<8xf32> attributes {parallel.layers = array<i64: 0, 0, 1, 1>} {
  ^bb0(%c: tensor<8xf32>, %wi: tensor<8xf32>):
    %0 = graph.add %c, %wi : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    graph.yield %0 : tensor<8xf32>
  }
  %d = graph.exp %y {graph.backward, parallel.stage = 3 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  %dh, %gb2 = graph.repeat 2 reverse carried(%d : tensor<8xf32>) stacked(%gb : tensor<2x8xf32>) captured() -> tensor<8xf32> stacking tensor<2x8xf32> attributes {graph.backward, parallel.layers = array<i64: 0, 0, 1, 1>} {
  ^bb0(%c: tensor<8xf32>, %gi: tensor<8xf32>):
    %0 = graph.add %gi, %c {graph.backward} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = graph.neg %c {graph.backward} : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %1, %0 : tensor<8xf32>, tensor<8xf32>
  }
  %dx, %ga2 = graph.repeat 2 reverse carried(%dh : tensor<8xf32>) stacked(%ga : tensor<2x8xf32>) captured() -> tensor<8xf32> stacking tensor<2x8xf32> attributes {graph.backward, parallel.layers = array<i64: 1, 1, 0, 0>} {
  ^bb0(%c: tensor<8xf32>, %gi: tensor<8xf32>):
    %0 = graph.add %gi, %c {graph.backward} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = graph.neg %c {graph.backward} : (tensor<8xf32>) -> tensor<8xf32>
    graph.yield %1, %0 : tensor<8xf32>, tensor<8xf32>
  }
  return %ga2, %gb2 : tensor<2x8xf32>, tensor<2x8xf32>
}
func.func @update(%wa: tensor<2x8xf32> {graph.state = @wa}, %wb: tensor<2x8xf32> {graph.state = @wb}, %ga: tensor<2x8xf32> {graph.state = @ga}, %gb: tensor<2x8xf32> {graph.state = @gb})
    -> (tensor<2x8xf32> {graph.state = @wa}, tensor<2x8xf32> {graph.state = @wb}) {
  %0 = graph.sub %wa, %ga : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = graph.sub %wb, %gb : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0, %1 : tensor<2x8xf32>, tensor<2x8xf32>
}
}
