// RUN: llmc-opt %s --split-input-file --llmc-assign-stages --verify-diagnostics | FileCheck %s

// Accepts an embedding and a head that the file puts where they stand, on the first and the last
// stage; the stages of layers are divide-layers-annotated.mlir's.
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 2>} {
  graph.source @w : tensor<3x8x8xf32> {init = #graph.init_kind<zeros>}
  graph.source @in : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "wte", stages = array<i64: 0>}}
  graph.source @head : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "lm", stages = array<i64: 0, 1>}}
  graph.state @s0 : tensor<3x8x8xf32> parameter stacked views [#graph.view<@w, 0, [8, 1]>, #graph.view<@w, 64, [8, 1]>, #graph.view<@w, 128, [8, 1]>]
  graph.state @s1 : tensor<8x8xf32> parameter views [#graph.view<@in, 0, [8, 1]>]
  graph.state @s2 : tensor<8x8xf32> parameter views [#graph.view<@head, 0, [8, 1]>]
  // CHECK-LABEL: func.func @forward
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<3x8x8xf32> {graph.state = @s0}, %u: tensor<8x8xf32> {graph.state = @s1}, %v: tensor<8x8xf32> {graph.state = @s2}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // CHECK: graph.matmul {{.*}}parallel.stage = 0
    %0 = graph.matmul "bd,de->be" %x, %u : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = graph.repeat 3 carried(%0 : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // CHECK: parallel.layers = array<i64: 1, 2>
    // CHECK: graph.matmul {{.*}}parallel.stage = 1
    %2 = graph.matmul "bd,de->be" %1, %v : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}

// -----

// Refuses a head that is to stand before its layers.
module attributes {graph.mode = "infer", parallel.mesh = #parallel.mesh<["dp"=1, "pp"=2, "tp"=1]>, parallel.stage_layers = array<i64: 1, 1>} {
  graph.source @w : tensor<2x8x8xf32> {init = #graph.init_kind<zeros>}
  graph.source @head : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "lm", stages = array<i64: 0>}}
  graph.state @s0 : tensor<2x8x8xf32> parameter stacked views [#graph.view<@w, 0, [8, 1]>, #graph.view<@w, 64, [8, 1]>]
  graph.state @s1 : tensor<8x8xf32> parameter views [#graph.view<@head, 0, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<2x8x8xf32> {graph.state = @s0}, %v: tensor<8x8xf32> {graph.state = @s1}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    %1 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    // expected-error @+1 {{node 'lm' (weight 'head') for pipeline stage 0, it stands on stage 1: what is before the layers is on the first stage, what is behind them on the last}}
    %2 = graph.matmul "bd,de->be" %1, %v : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}
