// RUN: llmc-opt %s --llmc-divide-layers="stages=1 chunks=2" | FileCheck %s

// Gives each part the views of all experts of its layers: a stacked state may view one tensor for each expert of each
// layer.
// CHECK: parallel.stage_layers = array<i64: 1, 1>
module {
  graph.source @e : tensor<4x4x4xf32> {init = #graph.init_kind<zeros>}
  // CHECK: graph.state @{{.*}} : tensor<1x2x4x4xf32> parameter stacked views [#graph.view<@e, 0, [4, 1]>, #graph.view<@e, 16, [4, 1]>]
  // CHECK-NEXT: graph.state @{{.*}} : tensor<1x2x4x4xf32> parameter stacked views [#graph.view<@e, 32, [4, 1]>, #graph.view<@e, 48, [4, 1]>]
  // CHECK-NOT: graph.state @
  // CHECK: func.func @forward
  graph.state @w : tensor<2x2x4x4xf32> parameter stacked views [#graph.view<@e, 0, [4, 1]>, #graph.view<@e, 16, [4, 1]>, #graph.view<@e, 32, [4, 1]>, #graph.view<@e, 48, [4, 1]>]
  func.func @forward(%x: tensor<2x4x4xf32> {graph.input = "x"}, %w: tensor<2x2x4x4xf32> {graph.state = @w}) -> (tensor<2x4x4xf32> {graph.output = "y"}) {
    %h = graph.repeat 2 carried(%x : tensor<2x4x4xf32>) stacked(%w : tensor<2x2x4x4xf32>) captured() -> tensor<2x4x4xf32> {
    ^bb0(%c: tensor<2x4x4xf32>, %wi: tensor<2x4x4xf32>):
      %a = graph.matmul "ebd,edf->ebf" %c, %wi : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
      graph.yield %a : tensor<2x4x4xf32>
    }
    return %h : tensor<2x4x4xf32>
  }
}
