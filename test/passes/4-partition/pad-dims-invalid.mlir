// RUN: llmc-opt %s --llmc-pad-dims --split-input-file --verify-diagnostics

// Nothing is looked up along the columns of a matrix: it does not grow.

#columns = #parallel.sharding<[{}, {"tp"}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=4]>} {
graph.source @w : tensor<4x6xf32> {init = #graph.init_kind<zeros>}
// expected-error @+1 {{D1: dimension 1 of state @p has 6 elements, which 4 ranks cannot share evenly; the nearest valid sizes are 4 and 8}}
graph.state @p : tensor<4x6xf32> parameter views [#graph.view<@w, 0, [6, 1]>] {parallel.sharding = #columns}
func.func @micro(%x: tensor<3x4xf32> {graph.input = "x"}, %p: tensor<4x6xf32> {graph.state = @p, parallel.sharding = #columns}) {
  %y = graph.matmul "sd,de->se" %x, %p {parallel.in = [#parallel.sharding<[{}, {}]>, #columns], parallel.out = [#columns]} : (tensor<3x4xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
  return
}
}

// -----

// Rows that come from outside do not either.

#rows = #parallel.sharding<[{"dp"}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=1, "tp"=1]>} {
// expected-error @+1 {{D1: dimension 0 of 'tensor<3xf32>' has 3 elements, which 2 ranks cannot share evenly; the nearest valid sizes are 2 and 4}}
func.func @micro(%x: tensor<3xf32> {graph.input = "x", parallel.sharding = #rows}) {
  return
}
}

// -----

// A product over padding has no neutral element here.

#r = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
graph.source @w : tensor<5x4xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<5x4xf32> parameter views [#graph.view<@w, 0, [4, 1]>] {parallel.sharding = #rows}
func.func @micro(%ids: tensor<3xi64> {graph.input = "input_ids"}, %p: tensor<5x4xf32> {graph.state = @p, parallel.sharding = #rows}) {
  %x = graph.gather %p, %ids {parallel.in = [#rows, #parallel.sharding<[{}]>], parallel.out = [#parallel.sharding<[{}, {}], unreduced = {"tp": sum}>]} : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %s = graph.constant dense<1.0> : tensor<5xf32>
  // expected-error @+1 {{D2: reduces over a padded dimension and has no neutral element for it}}
  %d = graph.layer_norm_grad_scale %p, %p, %s, %s : (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}
}
