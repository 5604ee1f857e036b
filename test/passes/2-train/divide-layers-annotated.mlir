// RUN: llmc-opt %s --split-input-file --llmc-divide-layers=stages=2 --verify-diagnostics | FileCheck %s

// Puts one layer on the first stage and two on the second, as the file asks; of the last layer it
// says nothing, and it joins the one before it.
// CHECK: parallel.stage_layers = array<i64: 1, 2>
module {
  graph.source @w0 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n0", stages = array<i64: 0>}}
  graph.source @w1 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 1>}}
  graph.source @w2 : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
  graph.state @s0 : tensor<3x8x8xf32> parameter stacked views [#graph.view<@w0, 0, [8, 1]>, #graph.view<@w1, 0, [8, 1]>, #graph.view<@w2, 0, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<3x8x8xf32> {graph.state = @s0}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    %1 = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %1 : tensor<4x8xf32>
  }
}

// -----

// Takes layers before the first that the file speaks of with it, and passes by a weight that it puts
// on several stages.
// CHECK: parallel.stage_layers = array<i64: 4, 1>
module {
  graph.source @w0 : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
  graph.source @w1 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 0>}}
  graph.source @w2 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n2", stages = array<i64: 0>}}
  graph.source @w3 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n3", stages = array<i64: 0, 1>}}
  graph.source @w4 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n4", stages = array<i64: 1>}}
  graph.state @s0 : tensor<5x8x8xf32> parameter stacked views [#graph.view<@w0, 0, [8, 1]>, #graph.view<@w1, 0, [8, 1]>, #graph.view<@w2, 0, [8, 1]>, #graph.view<@w3, 0, [8, 1]>, #graph.view<@w4, 0, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<5x8x8xf32> {graph.state = @s0}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    %1 = graph.repeat 5 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<5x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %1 : tensor<4x8xf32>
  }
}

// -----

// Refuses stages that go back.
module {
  graph.source @w0 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n0", stages = array<i64: 0>}}
  graph.source @w1 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 1>}}
  graph.source @w2 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n2", stages = array<i64: 0>}}
  graph.state @s0 : tensor<3x8x8xf32> parameter stacked views [#graph.view<@w0, 0, [8, 1]>, #graph.view<@w1, 0, [8, 1]>, #graph.view<@w2, 0, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<3x8x8xf32> {graph.state = @s0}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{the model annotates node 'n2' (weight 'w2') for pipeline stage 0, layers before it are on stage 1 of 2: stages follow each other, none is left out}}
    %1 = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %1 : tensor<4x8xf32>
  }
}

// -----

// Refuses a stage that the pipeline does not have.
module {
  graph.source @w0 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n0", stages = array<i64: 0>}}
  graph.source @w1 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 1>}}
  graph.source @w2 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n2", stages = array<i64: 2>}}
  graph.state @s0 : tensor<3x8x8xf32> parameter stacked views [#graph.view<@w0, 0, [8, 1]>, #graph.view<@w1, 0, [8, 1]>, #graph.view<@w2, 0, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<3x8x8xf32> {graph.state = @s0}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{node 'n2' (weight 'w2') for pipeline stage 2, layers before it are on stage 1 of 2}}
    %1 = graph.repeat 3 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<3x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %1 : tensor<4x8xf32>
  }
}

// -----

// Refuses a first stage without layers.
module {
  graph.source @w0 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n0", stages = array<i64: 1>}}
  graph.source @w1 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 1>}}
  graph.state @s0 : tensor<2x8x8xf32> parameter stacked views [#graph.view<@w0, 0, [8, 1]>, #graph.view<@w1, 0, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<2x8x8xf32> {graph.state = @s0}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{node 'n0' (weight 'w0') for pipeline stage 1, no layer is on stage 0 of 2}}
    %1 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %1 : tensor<4x8xf32>
  }
}

// -----

// Refuses more stages than the file divides into.
module {
  graph.source @w0 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n0", stages = array<i64: 0>}}
  graph.source @w1 : tensor<8x8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 0>}}
  graph.state @s0 : tensor<2x8x8xf32> parameter stacked views [#graph.view<@w0, 0, [8, 1]>, #graph.view<@w1, 0, [8, 1]>]
  func.func @forward(%x: tensor<4x8xf32> {graph.input = "x"}, %w: tensor<2x8x8xf32> {graph.state = @s0}) -> (tensor<4x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{the model's annotations end with pipeline stage 0, the mesh has 2: use pp = 1}}
    %1 = graph.repeat 2 carried(%x : tensor<4x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<4x8xf32> {
    ^bb0(%h: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
      %a = graph.matmul "bd,de->be" %h, %wi : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      graph.yield %a : tensor<4x8xf32>
    }
    return %1 : tensor<4x8xf32>
  }
}

// -----

// Refuses two layers of one body that the file puts on different stages.
module {
  graph.source @v0 : tensor<8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n0", stages = array<i64: 0>}}
  graph.source @v1 : tensor<8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 1>}}
  graph.state @v : tensor<1x8xf32> parameter stacked views [#graph.view<@v0, 0, [1]>]
  graph.state @w : tensor<1x8xf32> parameter stacked views [#graph.view<@v1, 0, [1]>]
  func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}, %v: tensor<1x8xf32> {graph.state = @v}, %w: tensor<1x8xf32> {graph.state = @w}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    // expected-error @+1 {{node 'n1' (weight 'v1') for pipeline stage 1 and node 'n0' for 0: they belong to layers that run as one}}
    %y = graph.repeat 1 carried(%x : tensor<1x4x2x8xf32>) stacked(%v, %w : tensor<1x8xf32>, tensor<1x8xf32>) captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>, %vi: tensor<8xf32>, %wi: tensor<8xf32>):
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %c = graph.add %o, %vi : (tensor<1x4x2x8xf32>, tensor<8xf32>) -> tensor<1x4x2x8xf32>
      %p, %m = graph.attention %c, %c, %c {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %d = graph.mul %p, %wi : (tensor<1x4x2x8xf32>, tensor<8xf32>) -> tensor<1x4x2x8xf32>
      graph.yield %d : tensor<1x4x2x8xf32>
    }
    return %y : tensor<1x4x2x8xf32>
  }
}

// -----

// Counts two layers for each body of two that the file puts on a stage.
// CHECK: parallel.stage_layers = array<i64: 2, 4>
module {
  graph.source @v0 : tensor<8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n0", stages = array<i64: 0>}}
  graph.source @v1 : tensor<8xf32> {init = #graph.init_kind<zeros>, graph.annotation = {node = "n1", stages = array<i64: 1>}}
  graph.source @v2 : tensor<8xf32> {init = #graph.init_kind<zeros>}
  graph.state @v : tensor<3x8xf32> parameter stacked views [#graph.view<@v0, 0, [1]>, #graph.view<@v1, 0, [1]>, #graph.view<@v2, 0, [1]>]
  func.func @forward(%x: tensor<1x4x2x8xf32> {graph.input = "x"}, %v: tensor<3x8xf32> {graph.state = @v}) -> (tensor<1x4x2x8xf32> {graph.output = "y"}) {
    %y = graph.repeat 3 carried(%x : tensor<1x4x2x8xf32>) stacked(%v : tensor<3x8xf32>) captured() -> tensor<1x4x2x8xf32> {
    ^bb0(%h: tensor<1x4x2x8xf32>, %vi: tensor<8xf32>):
      %o, %l = graph.attention %h, %h, %h {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      %c = graph.add %o, %vi : (tensor<1x4x2x8xf32>, tensor<8xf32>) -> tensor<1x4x2x8xf32>
      %p, %m = graph.attention %c, %c, %c {scale = 1.0, causal = true} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2xf32>)
      graph.yield %p : tensor<1x4x2x8xf32>
    }
    return %y : tensor<1x4x2x8xf32>
  }
}
