// RUN: llmc-opt %s --llmc-describe-ops | FileCheck %s

#s = #parallel.sharding<[{}]>
#all = #parallel.sharding<[{}, {}]>
#rows = #parallel.sharding<[{"tp"}, {}]>
#columns = #parallel.sharding<[{}, {"tp"}]>
#partial = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>
#stacked = #parallel.sharding<[{}, {"tp"}, {}]>

// Every op that has a name, once for all layers: names and the layer of each, what it
// reads and makes, how that lies and is needed, and why it is cut. Parameters go by the
// names of their sources, what a layer gets by who makes it: the first from outside.

// CHECK: module attributes {
// CHECK-SAME: parallel.ops = [
// CHECK-SAME: {names = ["ids"], op = "graph.exp", operands = [{layout = #parallel.sharding<[{}, {}]>, names = ["x"],
// CHECK-SAME: {cuts = {tp = {rule = "row cut", seed = "up0", tactic = "tensor"}}, layers = array<i64: 0, 1>, names = ["down0", "down1"], op = "graph.matmul",
// CHECK-SAME: operands = [{layout = #parallel.sharding<[{}, {"tp"}]>, names = ["ids", "down0"], needed = #parallel.sharding<[{}, {"tp"}]>, type = tensor<4x8xf32>},
// CHECK-SAME: {layout = #parallel.sharding<[{"tp"}, {}]>, names = ["h.0.w", "h.1.w"], needed = #parallel.sharding<[{"tp"}, {}]>, type = tensor<8x8xf32>}],
// CHECK-SAME: results = [{layout = #parallel.sharding<[{}, {}], unreduced = {"tp": sum}>, type = tensor<4x8xf32>}]}
// CHECK-SAME: {backward, names = ["out"], op = "graph.neg",
// CHECK-NOT: graph.tanh
// CHECK-SAME: names = ["turn"], op = "graph.abs", operands = [{layout = #parallel.sharding<[{}, {}]>, needed
// CHECK: graph.source
module attributes {parallel.mesh = #parallel.mesh<["dp"=1, "pp"=1, "tp"=2]>} {
graph.source @"h.0.w" : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
graph.source @"h.1.w" : tensor<8x8xf32> {init = #graph.init_kind<zeros>}
graph.state @w : tensor<2x8x8xf32> parameter stacked views [#graph.view<@"h.0.w", 0, [8, 1]>, #graph.view<@"h.1.w", 0, [8, 1]>]
func.func @micro(%x: tensor<4x8xf32> {graph.input = "x"},
                 %w: tensor<2x8x8xf32> {graph.state = @w, parallel.sharding = #stacked}) -> tensor<4x8xf32> {
  %e = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("ids")
  %y = graph.repeat 2 carried(%e : tensor<4x8xf32>) stacked(%w : tensor<2x8x8xf32>) captured() -> tensor<4x8xf32>
      attributes {parallel.in = [#columns, #stacked], parallel.args = [#columns, #rows], parallel.out = [#all]} {
  ^bb0(%c: tensor<4x8xf32>, %wi: tensor<8x8xf32>):
    %0 = graph.matmul "sd,de->se" %c, %wi {parallel.in = [#columns, #rows], parallel.out = [#partial], parallel.origin = {tp = {tactic = "tensor", rule = "row cut", seed = "up0"}}} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc(fused<"layers">["down0", "down1"])
    graph.yield %0 : tensor<4x8xf32>
  }
  %n = graph.neg %y {graph.backward} : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("out")
  %t = graph.tanh %n : (tensor<4x8xf32>) -> tensor<4x8xf32> loc(unknown)
  // What layers hand on in a circle has no one name.
  %q:2 = graph.repeat 2 carried(%t, %e : tensor<4x8xf32>, tensor<4x8xf32>) stacked() captured() -> tensor<4x8xf32>, tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>):
    %0 = graph.abs %a : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("turn")
    graph.yield %b, %a : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %t : tensor<4x8xf32>
}
}
