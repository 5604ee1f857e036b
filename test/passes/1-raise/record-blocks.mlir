// RUN: llmc-opt %s --llmc-record-blocks | FileCheck %s

// What is run, and how often: a block in a repeat counts once a layer. A relu
// that no matmul follows is no MLP, a gather from a computed table no embedding.
// CHECK: graph.model = {blocks = ["mlp x3", "embedding x1", "head x1"], name = "m"}
module attributes {graph.model = {name = "m"}} {
graph.source @t.file : tensor<5x4xf32> {init = #graph.init_kind<zeros>}
graph.source @u.file : tensor<3x4x4xf32> {init = #graph.init_kind<zeros>}
graph.state @t : tensor<5x4xf32> parameter views [#graph.view<@t.file, 0, [4, 1]>]
graph.state @u : tensor<3x4x4xf32> parameter views [#graph.view<@u.file, 0, [16, 4, 1]>]
func.func @forward(%ids: tensor<2xi64> {graph.input = "ids"}, %t: tensor<5x4xf32> {graph.state = @t}, %u: tensor<3x4x4xf32> {graph.state = @u}) -> (tensor<2x5xf32>, tensor<2x4xf32>) {
  %x = graph.gather %t, %ids : (tensor<5x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %h = graph.repeat 3 carried(%x : tensor<2x4xf32>) stacked(%u : tensor<3x4x4xf32>) captured() -> tensor<2x4xf32> {
  ^bb0(%c: tensor<2x4xf32>, %w: tensor<4x4xf32>):
    %0 = graph.matmul "sd,de->se" %c, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = graph.relu %0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %2 = graph.matmul "sd,ed->se" %1, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    graph.yield %2 : tensor<2x4xf32>
  }
  %table = graph.exp %h : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %picked = graph.gather %table, %ids : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %end = graph.relu %picked : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = graph.matmul "sd,vd->sv" %h, %t : (tensor<2x4xf32>, tensor<5x4xf32>) -> tensor<2x5xf32>
  return %y, %end : tensor<2x5xf32>, tensor<2x4xf32>
}
}
