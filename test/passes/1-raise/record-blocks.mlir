// RUN: llmc-opt %s --split-input-file --llmc-record-blocks | FileCheck %s

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

// -----

// Of 4 experts, each with 6 weights and 2 biases, a token uses one: 12 of the router and 8.
// CHECK: graph.model = {active_parameters = 20 : i64, blocks = ["mixture x1"], name = "experts"}
module attributes {graph.model = {name = "experts"}} {
graph.source @r.file : tensor<3x4xf32> {init = #graph.init_kind<zeros>}
graph.source @w.file : tensor<4x3x2xf32> {init = #graph.init_kind<zeros>}
graph.source @b.file : tensor<4x2xf32> {init = #graph.init_kind<zeros>}
graph.state @r : tensor<3x4xf32> parameter views [#graph.view<@r.file, 0, [4, 1]>]
graph.state @w : tensor<4x3x2xf32> parameter views [#graph.view<@w.file, 0, [6, 2, 1]>]
graph.state @b : tensor<4x2xf32> parameter views [#graph.view<@b.file, 0, [2, 1]>]
func.func @forward(%x: tensor<5x3xf32> {graph.input = "x"}, %r: tensor<3x4xf32> {graph.state = @r}, %w: tensor<4x3x2xf32> {graph.state = @w}, %b: tensor<4x2xf32> {graph.state = @b}) -> tensor<5x1x2xf32> {
  %scores = graph.matmul "sd,de->se" %x, %r : (tensor<5x3xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  %routes = graph.route %scores : (tensor<5x4xf32>) -> tensor<5x1xi64>
  %rows = graph.grouped_matmul %x, %w, %routes : (tensor<5x3xf32>, tensor<4x3x2xf32>, tensor<5x1xi64>) -> tensor<5x1x2xf32>
  %bias = graph.gather %b, %routes : (tensor<4x2xf32>, tensor<5x1xi64>) -> tensor<5x1x2xf32>
  %y = graph.add %rows, %bias : (tensor<5x1x2xf32>, tensor<5x1x2xf32>) -> tensor<5x1x2xf32>
  return %y : tensor<5x1x2xf32>
}
}
