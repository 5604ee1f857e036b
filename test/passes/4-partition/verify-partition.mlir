// RUN: llmc-opt %s --llmc-verify-partition | FileCheck %s

// Two stages that agree. The pass changes nothing.
// CHECK: parallel.mesh

#one = #parallel.sharding<[{}]>
module attributes {parallel.mesh = #parallel.mesh<["dp"=2, "pp"=2, "tp"=1]>} {
graph.source @w : tensor<3x4xf32> {init = #graph.init_kind<zeros>}
graph.state @p : tensor<3x4xf32> parameter stacked views [#graph.view<@w, 0, [1]>, #graph.view<@w, 4, [1]>, #graph.view<@w, 8, [1]>] {parallel.stages = [0, 1]}
graph.state @sum : tensor<f32> accumulator {parallel.stages = [0, 1]}
func.func @forward_0(%x: tensor<4xf32> {graph.input = "x"}) -> (tensor<4xf32> {parallel.boundary = 0 : i64, parallel.sharding = #one}, tensor<4xf32> {parallel.residual = 0 : i64})
    attributes {parallel.stage = 0 : i64, parallel.procedure = "forward"} {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @forward_1(%x: tensor<4xf32> {parallel.boundary = 0 : i64, parallel.sharding = #one}) attributes {parallel.stage = 1 : i64, parallel.procedure = "forward"} {
  return
}
func.func @backward_0(%x: tensor<4xf32> {parallel.residual = 0 : i64}) attributes {parallel.stage = 0 : i64, parallel.procedure = "backward"} {
  return
}
func.func @backward_1() attributes {parallel.stage = 1 : i64, parallel.procedure = "backward"} {
  return
}
func.func @update_0(%p: tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 0, 1>}, %s: tensor<f32> {graph.state = @sum})
    -> (tensor<1x4xf32> {graph.state = @p, parallel.layers = array<i64: 0, 1>}, tensor<f32> {graph.output = "sum"}) attributes {parallel.stage = 0 : i64, parallel.procedure = "update"} {
  // CHECK: parallel.all_reduce
  %0 = parallel.all_reduce %s over ["dp", "pp"] {kind = #graph.reduce_kind<sum>, parallel.origin = {node = "sum", rule = "partial sums", tactic = "data"}} : tensor<f32>
  return %p, %0 : tensor<1x4xf32>, tensor<f32>
}
func.func @update_1(%p: tensor<2x4xf32> {graph.state = @p, parallel.layers = array<i64: 1, 2>})
    -> (tensor<2x4xf32> {graph.state = @p, parallel.layers = array<i64: 1, 2>}) attributes {parallel.stage = 1 : i64, parallel.procedure = "update"} {
  return %p : tensor<2x4xf32>
}
}
