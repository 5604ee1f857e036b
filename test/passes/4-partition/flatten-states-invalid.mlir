// RUN: llmc-opt %s --split-input-file --verify-diagnostics --llmc-flatten-states

// F1: an optimizer that mixes the elements of a matrix cannot work on a flat part of it.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s : tensor<4x4xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<4x4xf32> parameter views [#graph.view<@s, 0, [4, 1]>] {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  graph.state @p.grad : tensor<4x4xf32> accumulator of @p {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return
  }
  func.func @backward_0(%g: tensor<4x4xf32> {graph.state = @p.grad}) -> (tensor<4x4xf32> {graph.state = @p.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    return %g : tensor<4x4xf32>
  }
  func.func @update_0(%p: tensor<4x4xf32> {graph.state = @p}, %g: tensor<4x4xf32> {graph.state = @p.grad})
      -> (tensor<4x4xf32> {graph.state = @p}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = parallel.all_reduce %g over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "p", rule = "partial sums", tactic = "data"}} : tensor<4x4xf32>
    // expected-error @+1 {{F1: does not compute each element alone, so that states cannot be shared out in flat buckets; use --zero 0}}
    %1 = graph.matmul "ab,bc->ac" %p, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}

// -----

// F2: the gradient of a layer is added outside of the layers.
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<1x4xf32> parameter stacked views [#graph.view<@s, 0, [1]>] {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  graph.state @p.grad : tensor<1x4xf32> accumulator of @p {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return
  }
  // expected-error @+1 {{F2: gradients of @p are not added up in its layers; use --zero 0}}
  func.func @backward_0(%g: tensor<1x4xf32> {graph.state = @p.grad}) -> (tensor<1x4xf32> {graph.state = @p.grad})
      attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
    %0 = graph.add %g, %g : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    return %0 : tensor<1x4xf32>
  }
  func.func @update_0(%p: tensor<1x4xf32> {graph.state = @p}, %g: tensor<1x4xf32> {graph.state = @p.grad})
      -> (tensor<1x4xf32> {graph.state = @p}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
    %0 = parallel.all_reduce %g over ["dp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "p", rule = "partial sums", tactic = "data"}} : tensor<1x4xf32>
    %1 = graph.sub %p, %0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    return %1 : tensor<1x4xf32>
  }
}

// -----

// expected-error @+1 {{stage 0 lacks a forward, backward or update function}}
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
  graph.source @s : tensor<4xf32> {init = #graph.init_kind<ones>}
  graph.state @p : tensor<4xf32> parameter views [#graph.view<@s, 0, [1]>] {parallel.flat_axes = ["dp"], parallel.stages = [0]}
  func.func @forward_0() attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
    return
  }
}
