// RUN: llmc-opt %s --llmc-divide-layers="stages=2 chunks=2" | FileCheck %s

// Gives four layers to two stages of two chunks each, and cuts them where the second chunk of the
// first stage begins: each part has a state of its own.
// CHECK: module attributes {parallel.stage_layers = array<i64: 1, 1, 1, 1>}
module {
  graph.source @src : tensor<4x8x8xf32> {init = #graph.init_kind<zeros>}
  // CHECK: graph.state @[[A:.*]] : tensor<2x8x8xf32> parameter stacked views [#graph.view<@src, 0, [8, 1]>, #graph.view<@src, 64, [8, 1]>]
  // CHECK: graph.state @[[B:.*]] : tensor<2x8x8xf32> parameter stacked views [#graph.view<@src, 128, [8, 1]>, #graph.view<@src, 192, [8, 1]>]
  // CHECK-NOT: graph.state
  graph.state @w : tensor<4x8x8xf32> parameter stacked views [#graph.view<@src, 0, [8, 1]>, #graph.view<@src, 64, [8, 1]>, #graph.view<@src, 128, [8, 1]>, #graph.view<@src, 192, [8, 1]>]
  // CHECK: func.func @forward(%[[X:.*]]: tensor<4x8xf32> {graph.input = "x"}, %[[U:.*]]: tensor<2x8x8xf32> {graph.state = @[[A]]}, %[[V:.*]]: tensor<2x8x8xf32> {graph.state = @[[B]]})
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<4x8x8xf32> {graph.state = @w}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // CHECK: %[[H:.*]] = graph.repeat 2 carried(%[[X]] : tensor<4x8xf32>) stacked(%[[U]] : tensor<2x8x8xf32>)
    // CHECK: %[[Y:.*]] = graph.repeat 2 carried(%[[H]] : tensor<4x8xf32>) stacked(%[[V]] : tensor<2x8x8xf32>)
    %h = graph.repeat 4 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<4x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%c: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %c, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: return %[[Y]]
    return %h : tensor<4x8xf32>
  }
}
