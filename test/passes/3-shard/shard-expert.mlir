// RUN: llmc-opt %s --llmc-shard-expert | FileCheck %s

// Each rank of ep has half of the experts, each rank of etp half of what one computes: columns of the first
// product, then terms of the second, whose results are partial sums over etp alone.
module attributes {parallel.mesh = #parallel.mesh<["pp"=1, "dp"=2, "tp"=2], ep = ["dp"], etp = ["tp"]>} {
  graph.source @s : tensor<512xf32> {init = #graph.init_kind<normal>, init_std = 0.02 : f64}
  // CHECK: graph.state @up {{.*}}parallel.sharding = #parallel.sharding<[{"dp"}, {"tp"}, {}]>
  graph.state @up : tensor<4x16x8xf32> parameter views [#graph.view<@s, 0, [128, 8, 1]>]
  // CHECK: graph.state @down {{.*}}parallel.sharding = #parallel.sharding<[{"dp"}, {}, {"tp"}]>
  graph.state @down : tensor<4x8x16xf32> parameter views [#graph.view<@s, 0, [128, 16, 1]>]
func.func @micro(%x: tensor<2x4x8xf32> {graph.input = "x"}, %p: tensor<2x4x4xf32> {graph.input = "p"},
                 %up: tensor<4x16x8xf32> {graph.state = @up}, %down: tensor<4x8x16xf32> {graph.state = @down})
    -> (tensor<2x4x8xf32> {graph.output = "y"}) {
  %r = graph.route %p : (tensor<2x4x4xf32>) -> tensor<2x4x2xi64>
  // CHECK: graph.grouped_matmul
  // CHECK-SAME: parallel.origin = {dp = {rule = "experts", seed = "", tactic = "expert"}, tp = {rule = "column cut", seed = "", tactic = "expert"}}
  // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {}, {"tp"}]>]
  %h = graph.grouped_matmul %x, %up, %r {exchanged, transposed}
      : (tensor<2x4x8xf32>, tensor<4x16x8xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x16xf32>
  %a = graph.relu %h : (tensor<2x4x2x16xf32>) -> tensor<2x4x2x16xf32>
  // CHECK: graph.grouped_matmul
  // CHECK-SAME: parallel.in = [#parallel.sharding<[{}, {}, {}, {"tp"}]>, #parallel.sharding<[{"dp"}, {}, {"tp"}]>, #parallel.sharding<[{}, {}, {}]>]
  // CHECK-SAME: parallel.out = [#parallel.sharding<[{}, {}, {}, {}], unreduced = {"tp": sum}>]
  %y = graph.grouped_matmul %a, %down, %r {exchanged, transposed}
      : (tensor<2x4x2x16xf32>, tensor<4x8x16xf32>, tensor<2x4x2xi64>) -> tensor<2x4x2x8xf32>
  %s = graph.reduce %y {dims = array<i64: 2>, kind = #graph.reduce_kind<sum>} : (tensor<2x4x2x8xf32>) -> tensor<2x4x8xf32>
  return %s : tensor<2x4x8xf32>
}
}
